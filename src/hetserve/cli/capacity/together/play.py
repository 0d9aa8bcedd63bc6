"""Plays the loads of several services on shared GPUs: `hetserve simulate --together`."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from hetserve.base.units import QPS
from hetserve.cli.capacity import serving
from hetserve.cli.capacity.effort import SimulationEffort
from hetserve.cli.capacity.services import NotPlannedError
from hetserve.cli.capacity.together.places import PlacedInstance, WantedInstance
from hetserve.objects.gpu_sharing import ONE
from hetserve.planning import Plan, Problem, plan
from hetserve.planning.offers import Offer, namespace_of, resolve_offers
from hetserve.planning.tolerances import with_tolerances
from hetserve.profiles import profile_from_spec
from hetserve.profiles.sharing import compute_share
from hetserve.registry.choices import Arrivals
from hetserve.registry.planners import PLANNERS
from hetserve.serving.services import GpuInstance, Neighbour, Service, compute_use
from hetserve.simulation.report import RunReport
from hetserve.simulation.run import ServiceLoad, play
from hetserve.simulation.stability import SLOS, grows

if TYPE_CHECKING:
    from hetserve.api.inference_service import InferenceService
    from hetserve.api.manifests import Manifests

FEWEST = 1_000
"""Queries of the service with the least load: a percentile of fewer says little."""
MOST = 50_000_000
_ROUNDING: Final = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class PlannedService:
    """A service with its plan: counts by type, load [queries/s], offers by type, and the policy that serves.

    Service times of the problem are those that the plan counts with, slowed on types that share GPUs. exclusive: the
    plan with a GPU for each instance that carries as much, whatever it costs; None: nobody asked.
    """

    service: InferenceService
    problem: Problem
    counts: Mapping[str, int]
    rate: float
    offers: Mapping[str, Offer]
    policy: str
    exclusive: Plan | None = None

    @property
    def name(self) -> str:
        return f"{namespace_of(self.service)}/{self.service.metadata.name}"

    @property
    def exclusive_gpus(self) -> int | None:
        """GPUs of the service if it shares none; None: there is no such plan."""
        if self.exclusive is None or not self.exclusive.feasible:
            return None
        on_gpus = {option.name for option in self.problem.types if option.gpu is not None}
        return sum(count for kind, count in self.exclusive.counts if kind in on_gpus)

    @property
    def instances(self) -> list[WantedInstance]:
        gpus = {option.name: option.gpu for option in self.problem.types}
        return [
            WantedInstance(self.neighbour, kind, k, gpus[kind], self.offers[kind].type.spec)
            for kind, count in self.counts.items()
            for k in range(count)
        ]

    @property
    def neighbour(self) -> Neighbour:
        model = self.service.spec.model.name
        return Neighbour(self.name, namespace_of(self.service), model, self.problem.mix.largest)

    @property
    def unmeasured(self) -> tuple[str, ...]:
        """Types of the plan on GPUs whose profiles have no compute share."""
        used = [self.offers[kind] for kind, count in self.counts.items() if count]
        return tuple(o.name for o in used if o.type.spec.gpu is not None and compute_share(o.profile.spec) is None)

    @property
    def expected(self) -> Mapping[str, float]:
        """Slow-down on the types whose instances share GPUs: what the plan and its dispatch policy count with."""
        return {o.name: o.slowdown / ONE for o in self.problem.types if o.slowdown is not None}

    @property
    def alone(self) -> Problem:
        """The problem with the service times of the profiles: those of a model alone on its GPU."""
        profiles = {name: profile_from_spec(offer.profile.spec) for name, offer in self.offers.items()}
        types = tuple(dataclasses.replace(o, profile=profiles[o.name]) for o in self.problem.types)
        return dataclasses.replace(self.problem, types=types)


@dataclass(frozen=True, slots=True)
class PlayedService:
    """What one service met: its instances, and a report by seed."""

    planned: PlannedService
    instances: tuple[PlacedInstance, ...]
    reports: tuple[RunReport, ...]
    effort: SimulationEffort

    @property
    def placed(self) -> bool:
        return all(one.reason is None for one in self.instances)

    @property
    def promised(self) -> float | None:
        """Sigma, if instances of the plan share GPUs."""
        held = [name for name, count in self.planned.counts.items() if count]
        return max((sigma for name, sigma in self.planned.expected.items() if name in held), default=None)

    @property
    def within_promise(self) -> bool | None:
        """Whether no query was served longer than sigma times its time alone; None: nothing shares."""
        most = max((report.stretch.most for report in self.reports), default=math.nan)
        return None if self.promised is None else not most > self.promised * (1 + _ROUNDING)

    @property
    def backlog_grows(self) -> bool:
        """By all seeds together: one of many alone seems to grow by chance."""
        return grows([report.backlog for report in self.reports if report.backlog is not None])

    @property
    def holds(self) -> bool:
        percentile = self.planned.problem.slo.percentile
        return self.placed and not self.backlog_grows and all(report.in_time(percentile) for report in self.reports)


def planned_service(service: InferenceService, problem: Problem, manifests: Manifests, policy: str) -> PlannedService:
    """The service with its default plan and its load: the declared one, else what the plan states.

    Raises NotPlannedError.
    """
    decided = plan(problem)
    if not decided.feasible or not decided.qps:
        raise NotPlannedError(str(decided.reason), decided.message)
    declared = service.spec.load and service.spec.load.expected_qps
    problem = with_tolerances(problem, dict(decided.tolerances))
    offers = resolve_offers(service, manifests.types, manifests.profiles)
    by_name = {offer.name: offer for offer in getattr(offers, "usable", ())}
    states = decided.qps if decided.held_qps is None else decided.held_qps
    rate = float(problem.load or declared or states)
    carried = problem.load if problem.objective == "MinCost" and problem.load else states
    exclusive = _exclusive(problem, carried) if problem.unshared else decided
    return PlannedService(service, problem, dict(decided.counts), rate, by_name, policy, exclusive)


def _exclusive(problem: Problem, rate: QPS) -> Plan:
    """The cheapest plan that carries a rate [queries/s] with a GPU for each instance.

    Without the budget: the whole GPUs within it would carry less.
    """
    planner = problem.planner if "MinCost" in PLANNERS[problem.planned_by].objectives else None
    alone = dataclasses.replace(problem, types=problem.unshared, unshared=(), planner=planner)
    return plan(dataclasses.replace(alone, objective="MinCost", load=rate, budget=None))


def together(
    services: Sequence[PlannedService], placed: Sequence[PlacedInstance], effort: SimulationEffort
) -> list[PlayedService]:
    """Plays all loads at once, for each seed. Raises NotPlannedError for a load that takes too long to judge."""
    assert isinstance(effort.arrivals, Arrivals)  # noqa: S101  recordings are refused before
    seconds = length(services, effort)
    shared = [_shared(one, services) for one in services]
    loads = [
        ServiceLoad(each, one.rate, one.problem.mix, one.problem.slo.percentile, k, effort.arrivals)
        for k, (one, each) in enumerate(zip(services, shared, strict=True))
    ]
    seats = [GpuInstance(one.wanted.owner.name, one.wanted.type, one.place) for one in placed if one.reason is None]
    warm_up = seconds * effort.warm_up / effort.queries
    runs = [play(loads, seats, seconds, seed, warm_up) for seed in effort.seeds]
    return [
        PlayedService(
            one,
            tuple(seat for seat in placed if seat.wanted.owner.name == one.name),
            tuple(run[k] for run in runs),
            effort,
        )
        for k, one in enumerate(services)
    ]


def length(services: Sequence[PlannedService], effort: SimulationEffort) -> float:
    """Seconds to play: `queries` per service on average, enough of the rarest, and 20 SLOs of each."""
    rates, slos = [one.rate for one in services], [one.problem.slo.latency for one in services]
    total = sum(rates)
    seconds = max(effort.queries * len(services) / total, SLOS * max(slos), FEWEST / min(rates))
    if seconds * total > MOST:
        raise NotPlannedError("SpecInvalid", f"the loads differ too much: {seconds * total:.3g} queries to judge all")
    return seconds


def _shared(one: PlannedService, services: Sequence[PlannedService]) -> Service:
    neighbours = [other.neighbour for other in services]
    uses = {
        kind: compute_use(compute_share(offer.profile.spec), one.neighbour, neighbours)
        for kind, offer in one.offers.items()
        if kind in one.counts
    }
    policy = serving.policy_for(one.policy, one.problem, one.counts)
    return Service(one.name, serving.system_of(one.alone), policy, uses, one.expected)
