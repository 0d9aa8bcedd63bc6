"""Services of manifests and options as planning problems, and what is answered for each, or why not."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click

from hetserve.api.conditions import Reason
from hetserve.base.files import shown_name
from hetserve.base.units import QPS, MicroDollarsPerHour, Millionths, Seconds
from hetserve.cli.output import streams
from hetserve.cli.output.plots import draw_or_refuse
from hetserve.cli.output.streams import EXIT_BAD_INPUT, EXIT_INFEASIBLE, dump, refuse

if TYPE_CHECKING:
    from hetserve.api.inference_service import InferenceService
    from hetserve.api.manifests import Manifests
    from hetserve.cli.output.terminal import Block
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
    _note_variants(service, manifests)
    known = [option.name for option in problem.types]
    named = {} if overrides.base is None else {overrides.base: "--base"}
    for name, option in (dict.fromkeys(overrides.min_instances or {}, "--min-instances") | named).items():
        if name not in known:
            refuse(f"{option} {name}: no such type for {service.metadata.name}; there are: {', '.join(known)}")
    return overrides.upon(problem)


def _note_variants(service: InferenceService, manifests: Manifests) -> None:
    """Says which variant of the model its plan is for."""
    from hetserve.planning.offers import namespace_of  # noqa: PLC0415
    from hetserve.profiles.variants import as_served, mismatch, served_variants  # noqa: PLC0415

    model, place = service.spec.model, namespace_of(service)
    own = [one for one in manifests.profiles if namespace_of(one) == place and one.spec.model == model.name]
    served = served_variants([as_served(model, one) for one in own if not mismatch(model, one)])
    if served:
        streams.note(f"{service.metadata.name}: of the variants the most accurate is planned: {' and '.join(served)}")


T = TypeVar("T")


class NotPlannedError(Exception):
    """No plan: a reason of hetserve.api.conditions, and one sentence."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(f"{reason}: {message}")
        self.reason, self.message = reason, message


@dataclass(frozen=True, slots=True)
class NotPlanned:
    """A service without an answer. whole: its document, where there is more to say."""

    service: str
    model: str
    reason: str
    message: str
    whole: dict[str, Any] | None = None

    def document(self) -> dict[str, Any]:
        outcome = {"feasible": False, "reason": self.reason, "message": self.message}
        return self.whole or {"service": self.service, "model": self.model, **outcome}


def planned(problem: Problem | Unplannable) -> Problem:
    """The problem itself. Raises NotPlannedError."""
    from hetserve.planning import Unplannable  # noqa: PLC0415

    if isinstance(problem, Unplannable):
        raise NotPlannedError(str(problem.reason), problem.message)
    return problem


def each(services: Iterable[InferenceService], work: Callable[[InferenceService], T]) -> list[T | NotPlanned]:
    """Results of `work` in order; NotPlanned for a NotPlannedError."""
    found: list[T | NotPlanned] = []
    for one in services:
        try:
            found.append(work(one))
        except NotPlannedError as why:
            found.append(NotPlanned(one.metadata.name, one.spec.model.name, why.reason, why.message))
    return found


def each_problem(
    files: tuple[str, ...],
    name: str | None,
    overrides: Overrides,
    work: Callable[[InferenceService, Problem, Manifests], T],
) -> list[T | NotPlanned]:
    """As `each`, of the services of the files with their problems; name: as of `choose`."""
    from hetserve.api.manifests import read_manifests  # noqa: PLC0415

    manifests = read_manifests(files)
    services = choose(manifests, name, files)
    return each(services, lambda one: work(one, planned(problem_of(one, manifests, overrides)), manifests))


def answered(found: Sequence[T | NotPlanned]) -> list[T]:
    return [one for one in found if not isinstance(one, NotPlanned)]


def finish(  # noqa: PLR0917
    found: Sequence[T | NotPlanned],
    output: str,
    plot: str | None,
    document: Callable[[T], dict[str, Any]],
    block: Callable[[T], Block],
    draw: Callable[[Sequence[T], str], None],
    *,
    holds: bool = True,
    beside: Callable[[Sequence[T]], Sequence[Block]] = lambda _: (),
) -> NoReturn:
    """Writes the answers as `output`, draws them to `plot`, reports refused services on stderr, and exits.

    A table has a block for each answer, and what is `beside` them. Exit code: 2 for bad input, 3 for no feasible
    answer, else 0.
    """
    results, text = answered(found), ""
    if plot is not None and results:
        draw_or_refuse(lambda: draw(results, plot), plot)
    if output != "table":
        text = dump([one.document() if isinstance(one, NotPlanned) else document(one) for one in found], output)
    elif results:
        from hetserve.cli.output.terminal import text_of  # noqa: PLC0415

        text = text_of([*map(block, results), *beside(results)])
    click.echo(text, nl=False)
    refused = [one for one in found if isinstance(one, NotPlanned)]
    for one in refused:
        streams.error(f"{one.service}: {one.reason}: {one.message}")
    if any(one.reason == Reason.SPEC_INVALID for one in refused):
        sys.exit(EXIT_BAD_INPUT)
    sys.exit(EXIT_INFEASIBLE if refused or not holds else 0)
