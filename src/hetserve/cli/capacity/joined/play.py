"""Plays a service with variants at one load, under a policy that joins queries."""

from __future__ import annotations

import dataclasses
import inspect
import math
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

from hetserve.api.conditions import Reason
from hetserve.api.inference_service import InferenceService
from hetserve.api.manifests import Manifests
from hetserve.api.model_profile import ModelProfileSpec
from hetserve.api.service.variants import ModelVariant
from hetserve.base.units import parse_duration
from hetserve.cli.capacity import serving
from hetserve.cli.capacity.effort import SimulationEffort
from hetserve.cli.capacity.services import NotPlannedError
from hetserve.cli.capacity.simulate import configuration
from hetserve.cli.output.progress import steps
from hetserve.cli.output.streams import note, refuse
from hetserve.dispatch.joining import JoiningPolicy, Variant, make_joining_policy
from hetserve.dispatch.joining.fang_rl import why_not
from hetserve.objects.gpu_sharing import ONE
from hetserve.planning import Problem
from hetserve.planning.formatting import latency_text
from hetserve.planning.offers import namespace_of
from hetserve.profiles import LatencyProfile
from hetserve.profiles.latency import slowed
from hetserve.profiles.variants import variant_profiles
from hetserve.registry.joining_policies import JOINING_POLICIES
from hetserve.serving.answers import PolicyContractError
from hetserve.serving.services import Service
from hetserve.serving.variants import VariantSystem
from hetserve.simulation.joined import JoinedReport, ceiling, noisy, simulate_joined
from hetserve.simulation.stability import grows
from hetserve.simulation.workload import draw_workload

MOST_JOINED: Final = 1024
"""Items: more together take longer for each of them, and times are kept for every number."""
_SETTING: Final = "variant"
"""Of a policy that serves one variant."""
_TRAINED: Final = "weights"
"""Setting of a policy that is trained."""


@dataclass(frozen=True, slots=True)
class JoinedOptions:
    """How a service with variants is played.

    margin: share by which predictions exceed the profiles. variants: those that may serve; None: all of the service.
    deadline: seconds until an answer is worth nothing; None: as declared. drops: whether hopeless queries are dropped;
    None: as the policy does. noise: standard deviation / mean of service times; None: as profiled. weights: a file, of
    a policy that is trained; None: the package's.
    """

    policy: str
    margin: float = 0.0
    variants: tuple[str, ...] | None = None
    deadline: float | None = None
    drops: bool | None = None
    noise: float | None = None
    weights: str | None = None


@dataclass(frozen=True, slots=True)
class JoinedService:
    """A service that was played.

    reports: by seed. ceiling: most queries/s, however late. alone: the same with each variant alone, of the first seed;
    empty unless asked for.
    """

    service: str
    model: str
    problem: Problem
    counts: Mapping[str, int]
    asked: JoinedOptions
    played: Service
    effort: SimulationEffort
    rate: float
    ceiling: float
    reports: tuple[JoinedReport, ...]
    alone: tuple[JoinedService, ...] = ()

    @property
    def system(self) -> VariantSystem:
        assert isinstance(self.played.system, VariantSystem)  # noqa: S101  as it was made
        return self.played.system

    @property
    def policy(self) -> JoiningPolicy:
        assert isinstance(self.played.policy, JoiningPolicy)  # noqa: S101  as it was made
        return self.played.policy

    @property
    def hard(self) -> float:
        return self.system.slo + self.system.grace

    @property
    def unstable(self) -> bool:
        """Whether the backlog grows without end: no query is dropped, and more come than can be served."""
        backlogs = [one.run.backlog for one in self.reports if one.run.backlog is not None]
        return grows(backlogs)

    @property
    def attainment(self) -> float:
        return 1 - (serving.late_share([one.run for one in self.reports]) or 0.0)

    @property
    def holds(self) -> bool:
        return not self.unstable and 1 - self.attainment <= 1 - self.problem.slo.percentile / 100 + 1e-12

    @property
    def accuracy(self) -> float | None:
        """Percent, over the queries in time of all seeds; None: none was."""
        known = [(one.answers.accuracy, one.attainment) for one in self.reports if one.attainment > 0]
        weights = sum(weight for _, weight in known)
        return sum(value * weight for value, weight in known) / weights if weights else None

    @property
    def utility(self) -> tuple[float, float]:
        """Mean and standard deviation over the queries of all seeds."""
        found = [one.answers for one in self.reports]
        mean = sum(one.utility for one in found) / len(found)
        square = sum(one.deviation**2 + one.utility**2 for one in found) / len(found)
        return mean, math.sqrt(max(square - mean**2, 0.0))

    @property
    def shares(self) -> dict[str, float]:
        """Of the answered queries, by variant of rising accuracy."""
        answered = [one.run.queries - one.run.dropped - one.run.unfinished for one in self.reports]
        total = max(sum(answered), 1)
        return {
            one.name: sum(
                report.answers.shares[one.name] * n for report, n in zip(self.reports, answered, strict=True)
            ) / total
            for one in self.system.variants
        }  # fmt: skip

    @property
    def joined(self) -> float | None:
        """Mean items served together; None: nothing was served."""
        known = [one.answers.joined for one in self.reports if math.isfinite(one.answers.joined)]
        return sum(known) / len(known) if known else None


def play(  # noqa: PLR0917
    service: InferenceService,
    problem: Problem,
    manifests: Manifests,
    asked: JoinedOptions,
    counts: dict[str, int] | None,
    rate: float,
    effort: SimulationEffort,
) -> JoinedService:
    """counts: as given; None: of the default plan. rate: queries/s. Raises NotPlannedError."""
    name = str(service.metadata.name)
    if service.spec.model.variants is None:
        why = f"policy {asked.policy} chooses among variants, and spec.model.variants names none"
        raise NotPlannedError(str(Reason.SPEC_INVALID), why)
    problem, held = configuration(name, problem, counts)
    effort = serving.long_enough(problem, rate, effort, serving.MOST_AT_A_RATE)
    system = system_of(service, problem, manifests, asked)
    batch, largest = max(problem.mix.batches), len(system.served.batches)
    if batch > largest:
        why = f"queries of {batch} items: variants serve at most {largest} together"
        raise NotPlannedError(str(Reason.SPEC_INVALID), why)
    played = Service(
        name,
        system,
        _policy(asked),
        expected={option.name: 1 + asked.margin for option in problem.types},
    )
    reports = _reports(played, problem, asked, held, rate, effort)
    result = JoinedService(name, service.spec.model.name, problem, held, asked, played, effort, rate, 0.0, reports)
    items = sum(batch * share for batch, share in zip(problem.mix.batches, problem.mix.shares, strict=True))
    return dataclasses.replace(result, ceiling=ceiling(result.system, held, items / sum(problem.mix.shares)))


def _reports(  # noqa: PLR0917
    played: Service,
    problem: Problem,
    asked: JoinedOptions,
    held: dict[str, int],
    rate: float,
    effort: SimulationEffort,
) -> tuple[JoinedReport, ...]:
    """By seed. Exits with an error for a policy that breaks its contract."""
    with steps(f"{played.name}: {asked.policy}", len(effort.seeds)) as shown:

        def run(seed: int) -> JoinedReport:
            workload = draw_workload(problem.mix, effort.queries, seed, effort.arrivals)
            report = simulate_joined(played, held, workload, rate, warm_up=effort.warm_up)
            shown.done(f"seed {seed}")
            return report

        with ThreadPoolExecutor(effort.jobs) as pool:
            try:
                return tuple(pool.map(run, effort.seeds))
            except PolicyContractError as error:
                other = ", or other --weights" if asked.weights else ""
                refuse(f"{played.name}: {error}: choose another --policy{other}")


def with_each_alone(result: JoinedService, service: InferenceService, manifests: Manifests) -> JoinedService:
    """The result with `alone`. Raises NotPlannedError."""
    effort = dataclasses.replace(result.effort, seeds=result.effort.seeds[:1])

    def alone(variant: str) -> JoinedService:
        asked = dataclasses.replace(result.asked, variants=(variant,))
        return play(service, result.problem, manifests, asked, dict(result.counts), result.rate, effort)

    return dataclasses.replace(result, alone=tuple(alone(one.name) for one in result.system.variants))


def note_misfit(result: JoinedService) -> None:
    """Says why a trained policy left the service to another."""
    asked, system = result.asked, result.system.present(result.counts)
    if asked.policy == "fang-rl" and (
        why := why_not(system.model(system.predicted), result.counts, asked.weights or "")
    ):
        note(f"{result.service}: {asked.policy} is {why}; fang decides")


def _policy(asked: JoinedOptions) -> JoiningPolicy:
    made = JOINING_POLICIES[asked.policy].load()
    settings: dict[str, Any] = {}
    if _SETTING in inspect.signature(made).parameters:
        if asked.variants is None or len(asked.variants) != 1:
            refuse(f"--policy {asked.policy} serves one variant: name it by --variant")
        settings[_SETTING] = asked.variants[0]
    if _TRAINED in inspect.signature(made).parameters:
        settings[_TRAINED] = asked.weights or ""
    elif asked.weights is not None:
        refuse(f"--weights {asked.weights}: --policy {asked.policy} has none")
    try:
        policy = make_joining_policy(asked.policy, **settings)
    except ValueError as error:
        refuse(f"--weights {error}")
    return policy if asked.drops is None else dataclasses.replace(policy, drops=asked.drops)


def system_of(service: InferenceService, problem: Problem, manifests: Manifests, asked: JoinedOptions) -> VariantSystem:
    """The model's variants, as asked for, on the problem's types. Raises NotPlannedError."""
    chosen, specs = _chosen(service, asked), _specs(service, problem, manifests)
    switches = {name: parse_duration(spec.switch_time or "0s") for name, spec in specs.items()}
    slo = problem.slo.latency
    times = {name: _times(service, problem, name, spec, asked) for name, spec in specs.items()}
    limits = [MOST_JOINED if one.max_batch is None else one.max_batch for own in times.values() for one in own.values()]
    try:
        return VariantSystem.of_variants(
            times,
            [Variant(one.name, one.accuracy_percent, one.utility_or_default) for one in chosen],
            slo,
            hard=_hard(service, slo, asked.deadline),
            switches=switches,
            largest=min(max(limits), MOST_JOINED),
        )
    except ValueError as error:
        raise NotPlannedError(str(Reason.SPEC_INVALID), str(error)) from None


def _times(
    service: InferenceService, problem: Problem, type_name: str, spec: ModelProfileSpec, asked: JoinedOptions
) -> dict[str, LatencyProfile]:
    """By variant that may serve: as profiled, slowed where the type shares its GPU, with the noise asked for."""
    factor = next(option.slowdown or ONE for option in problem.types if option.name == type_name) / ONE
    allowed = {one.name for one in _chosen(service, asked)}
    found = variant_profiles(service.spec.model, spec)
    times = {name: slowed(profile, factor) for name, profile in found.items() if name in allowed}
    return times if asked.noise is None else {name: noisy(one, asked.noise) for name, one in times.items()}


def _specs(service: InferenceService, problem: Problem, manifests: Manifests) -> dict[str, ModelProfileSpec]:
    """Profiles by type, as `resolve_offers` took them: one of each."""
    place, model = namespace_of(service), service.spec.model.name
    own = [one.spec for one in manifests.profiles if namespace_of(one) == place and one.spec.model == model]
    by_type = {spec.instance_type: spec for spec in own}
    return {option.name: by_type[option.name] for option in problem.types}


def _chosen(service: InferenceService, asked: JoinedOptions) -> Sequence[ModelVariant]:
    known = {one.name: one for one in service.spec.model.variants or ()}
    for unknown in sorted(set(asked.variants or ()) - known.keys()):
        refuse(f"--variant {unknown}: no such variant of {service.metadata.name}; there are: {', '.join(known)}")
    return [one for name, one in known.items() if asked.variants is None or name in asked.variants]


def _hard(service: InferenceService, slo: float, given: float | None) -> float:
    """Seconds until an answer is worth nothing: as given, else spec.dispatch.deadline, else the SLO."""
    declared = service.spec.dispatch and service.spec.dispatch.deadline
    hard = parse_duration(declared) if given is None and declared else given
    if hard is not None and hard < slo:
        where = f"--deadline {latency_text(hard)}" if given is not None else f"spec.dispatch.deadline {declared}"
        refuse(
            f"{where}: is shorter than the SLO of {service.metadata.name}, {latency_text(slo)}; an answer loses its "
            "worth from the SLO on, so give at least that"
        )
    return slo if hard is None else hard
