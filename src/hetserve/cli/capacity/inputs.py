"""Reads manifests and options into planning problems."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hetserve.base.files import shown_name
from hetserve.base.units import QPS, MicroDollarsPerHour, Millionths, Seconds
from hetserve.cli.output.messages import refuse

if TYPE_CHECKING:
    from hetserve.api.inference_service import InferenceService
    from hetserve.api.manifests import Manifests
    from hetserve.demand import BatchMix
    from hetserve.planning import PlanSettings, Problem, Unplannable


@dataclass(frozen=True, slots=True)
class Overrides:
    """Options that override fields of the manifests; None: not given."""

    planner: str | None = None
    budget: MicroDollarsPerHour | None = None
    load: QPS | None = None
    slo: Seconds | None = None
    percentile: float | None = None
    base: str | None = None
    mix: BatchMix | None = None
    saturation_threshold: float | None = None
    launch_weight: float | None = None
    max_slowdown: Millionths | None = None
    min_instances: dict[str, int] | None = None

    def settings(self) -> PlanSettings:
        from hetserve.planning import PlanSettings  # noqa: PLC0415

        return PlanSettings(base=self.base, **self._given("saturation_threshold", "launch_weight", "max_slowdown"))

    def upon(self, problem: Problem) -> Problem:
        given = self._given("planner", "budget", "load", "saturation_threshold", "mix")
        if self.load is not None:
            given["objective"] = "MinCost"
        latency = problem.slo.latency if self.slo is None else self.slo
        slo = dataclasses.replace(problem.slo, latency=latency, **self._given("percentile"))
        least = self.min_instances or {}
        types, unshared = (
            tuple(dataclasses.replace(o, min_instances=least.get(o.name, o.min_instances)) for o in options)
            for options in (problem.types, problem.unshared)
        )
        return dataclasses.replace(problem, slo=slo, types=types, unshared=unshared, **given)

    def _given(self, *names: str) -> dict[str, Any]:
        return {name: value for name in names if (value := getattr(self, name)) is not None}


def choose(manifests: Manifests, name: str | None, files: tuple[str, ...]) -> list[InferenceService]:
    """Services of that name (NAME or NAMESPACE/NAME; None: all); exits if there is none."""
    from hetserve.planning.offers import namespace_of  # noqa: PLC0415

    named = [(f"{namespace_of(one)}/{one.metadata.name}", one) for one in manifests.services]
    if not named:
        refuse(f"no InferenceService in {', '.join(map(shown_name, files))}")
    chosen = [one for full, one in named if name is None or name in (full, one.metadata.name)]
    if not chosen:
        refuse(f"no InferenceService {name} in the input; there are: {', '.join(full for full, _ in named)}")
    return chosen


def problem_of(service: InferenceService, manifests: Manifests, overrides: Overrides) -> Problem | Unplannable:
    """The service's problem with the overrides, or why there is none; exits for an unknown type."""
    from hetserve.planning import Unplannable, build_problem  # noqa: PLC0415

    settings = overrides.settings()
    problem = build_problem(service, manifests.types, manifests.profiles, settings=settings, load=overrides.load)
    if isinstance(problem, Unplannable):
        return problem
    known = [option.name for option in problem.types]
    named = {} if overrides.base is None else {overrides.base: "--base"}
    for name, option in (dict.fromkeys(overrides.min_instances or {}, "--min-instances") | named).items():
        if name not in known:
            refuse(f"{option} {name}: no such type for {service.metadata.name}; there are: {', '.join(known)}")
    return overrides.upon(problem)
