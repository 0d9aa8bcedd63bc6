"""Builds a Problem from the declared objects and the observed cluster."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from hetserve.api.conditions import Reason
from hetserve.api.inference_service import InferenceService
from hetserve.api.instance_type import InstanceType
from hetserve.api.model_profile import ModelProfile
from hetserve.base.units import QPS, Millionths, Seconds, parse_duration, parse_money
from hetserve.demand import declared_mix
from hetserve.objects.gpu_sharing import ONE
from hetserve.planning.offers import Offer, Offers, Unplannable, alone, resolve_offers
from hetserve.planning.plan import NOTICEABLE, WIDEST_BUDGET
from hetserve.planning.problem import LatencySlo, Pool, Problem, TypeOption
from hetserve.planning.rates import throughput
from hetserve.planning.tenancy import DEFAULT_MAX_SLOWDOWN, SharingRule
from hetserve.profiles import profile_from_spec
from hetserve.profiles.latency import slowed
from hetserve.registry.dispatch_policies import default_dispatch_policy

_NO_LOAD: Final = "objective MinCost plans for a load, and none is known: "
_SET_ONE: Final = "set spec.load.expectedQPS (queries/s)"
_NOT_MEASURED: Final = (
    f"spec.scaling follows the load that is measured, and none has been yet; to plan before, {_SET_ONE}, or give "
    "`hetserve plan` --load"
)


@dataclass(frozen=True, slots=True)
class TypeFacts:
    """Capacity of one instance type for one service.

    running: its instances, without those that larger ones are to replace and find no place for. room: further ones; on
    a GPU type, healthy GPUs with the memory and without this model; on a CPU type, nodes on which one fits; None:
    unknown. pool: of new instances. launch_time: as observed; None: as declared. least: as of OwnTerms.
    """

    running: int = 0
    room: int | None = None
    pool: str | None = None
    launch_time: Seconds | None = None
    least: Millionths | None = None


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """Facts per instance type name, and the pools that they name.

    A type without facts is limited by maxInstances only; for one without nodes pass `TypeFacts(room=0)`.
    """

    types: Mapping[str, TypeFacts] = field(default_factory=dict)
    pools: tuple[Pool, ...] = ()


@dataclass(frozen=True, slots=True)
class PlanSettings:
    """Settings of an installation. max_slowdown: sigma, the most that sharing a GPU may multiply a service time by."""

    saturation_threshold: float = 0.8
    launch_weight: float = 1 / 3600
    base: str | None = None
    max_slowdown: Millionths = DEFAULT_MAX_SLOWDOWN


def build_problem(
    service: InferenceService,
    types: Iterable[InstanceType],
    profiles: Iterable[ModelProfile],
    world: ClusterFacts | None = None,
    settings: PlanSettings | None = None,
    *,
    sharing: SharingRule | None = None,
    load: QPS | None = None,
) -> Problem | Unplannable:
    """Problem of one service, its types sorted by name.

    types, profiles: all that exist; others' profiles are ignored. world: None: no cluster. sharing: None: the settings'
    sigma, and no instance runs. load: planned for instead of spec.load.expectedQPS. With spec.scaling, its saturation
    counts instead of the settings' threshold. Returns Unplannable with InstanceTypeNotFound, NoInstanceTypes,
    ProfileMissing, ProfileConflict, VariantMismatch or LoadUnknown.
    """
    settings = settings or PlanSettings()
    sharing = sharing or SharingRule(settings.max_slowdown)
    offers = resolve_offers(service, types, profiles, sharing)
    if isinstance(offers, Unplannable):
        return offers
    return problem_of(service, offers, world or ClusterFacts(), settings, load=load)


def problem_of(
    service: InferenceService,
    offers: Offers,
    facts: ClusterFacts,
    settings: PlanSettings,
    *,
    load: QPS | None = None,
) -> Problem | Unplannable:
    """Problem of a service from its resolved offers; as `build_problem`, of whose refusals only LoadUnknown is left."""
    spec = service.spec
    if load is None and spec.load is not None and spec.load.expected_qps is not None:
        load = QPS(spec.load.expected_qps)
    if spec.objective == "MinCost" and load is None:
        return Unplannable(Reason.LOAD_UNKNOWN, _NO_LOAD + (_SET_ONE if spec.scaling is None else _NOT_MEASURED))
    fixed = spec.objective == "MinCost" and spec.scaling is None
    shares = any(offer.shares or (fixed and offer.own) for offer in offers.usable)
    return Problem(
        service=service.metadata.name,
        objective=spec.objective,
        slo=LatencySlo(parse_duration(spec.slo.latency), float(spec.slo.percentile)),
        mix=declared_mix(service),
        types=tuple(_option(o, facts.types.get(o.name, TypeFacts()), fixed=fixed) for o in offers.usable),
        budget=None if spec.budget is None else parse_money(spec.budget.hourly),
        load=load,
        saturation_threshold=settings.saturation_threshold if spec.scaling is None else spec.scaling.saturation_share,
        launch_weight=settings.launch_weight,
        base=settings.base,
        pools=facts.pools,
        left_out=offers.left_out,
        policy=default_dispatch_policy() if spec.dispatch is None else spec.dispatch.policy,
        planner=spec.planner,
        unshared=tuple(_option(alone(o), TypeFacts()) for o in offers.usable) if shares else (),
    )


def _option(offer: Offer, facts: TypeFacts, *, fixed: bool = False) -> TypeOption:
    """The type as planned: where instances share, every service time is the longest that is tolerated.

    fixed: of a load that is declared and stays, of which alone a tolerance can be the service's own.
    """
    profile, slowdown = profile_from_spec(offer.profile.spec), None if offer.gpu is None else offer.gpu.slowdown
    least = None if offer.type.spec.max_instances == 0 else facts.least
    limits = [] if facts.room is None else [facts.running + facts.room]
    if offer.type.spec.max_instances is not None:
        limits.append(offer.type.spec.max_instances)
    return TypeOption(
        name=offer.name,
        price=offer.price,
        profile=profile if slowdown is None else slowed(profile, slowdown / ONE),
        max_instances=min(limits, default=None),
        min_instances=offer.type.spec.min_instances,
        running=facts.running,
        launch_time=parse_duration(offer.type.spec.launch_time) if facts.launch_time is None else facts.launch_time,
        demand=offer.demand,
        pool=facts.pool,
        gpu=offer.gpu,
        own=replace(offer.own, least=least) if fixed and offer.own is not None else None,
    )


_BY_CAPACITY: Final = ("ilp", "greedy", "homogeneous", "exhaustive")
"""Planners that count the rate of each type over the whole mix: others may use more of a type that serves a part."""


def without_slack_caps(problem: Problem, declared: Problem) -> Problem:
    """The problem, with the declared limit of each type of which the cluster has more than any plan could use.

    declared: the same problem without facts of the cluster. The problem's planner gives both the same plan, except for
    "at most" in `refusals` (flow orders types that are equal in all else by their limits, and may take another).
    A problem with pools comes back as it is: there, limits and running instances also decide what launches.
    """
    if problem.pools:
        return problem
    if problem.objective == "MaxThroughput":
        # The running ones matter only for what is free in a pool.
        pairs = zip(problem.types, declared.types, strict=True)
        problem = replace(problem, types=tuple(replace(o, running=d.running) for o, d in pairs))
    useful = _useful(problem)
    return replace(problem, types=tuple(map(_relaxed, problem.types, declared.types, useful)))


def _relaxed(option: TypeOption, declared: TypeOption, useful: int | None) -> TypeOption:
    cap = option.max_instances
    if useful is None or cap is None or cap < max(useful, option.min_instances, 1):
        return option
    return replace(option, max_instances=declared.max_instances)


def _useful(problem: Problem) -> tuple[int | None, ...]:
    """Per type, a number of instances that no plan or next step exceeds; None: not known. 0: it serves no batch."""
    if problem.objective == "MaxThroughput" or (problem.load is not None and problem.planned_by not in _BY_CAPACITY):
        used = _bought(problem)
    else:
        used = (None,) * len(problem.types) if problem.load is None else _carrying(problem, problem.load)
    total = problem.most_total
    return used if total is None else tuple(total if one is None else min(one, total) for one in used)


def _carrying(problem: Problem, load: float) -> tuple[int | None, ...]:
    rates = [throughput(option.profile, problem.mix) or 0.0 for option in problem.types]
    # The least cost carries the load with less than one instance to spare, beside the least instances wanted, of a
    # type and in all.
    wanted = math.fsum(option.min_instances * rate for option, rate in zip(problem.types, rates, strict=True))
    carried = load / problem.saturation_threshold + max(rates) * (1 + problem.least_total) + wanted
    return tuple(
        _enough(problem, option, carried * (1 + NOTICEABLE) / rate) if rate else 0
        for option, rate in zip(problem.types, rates, strict=True)
    )


def _bought(problem: Problem) -> tuple[int | None, ...]:
    """What the widest budget of a next step buys."""
    if problem.budget is None:
        return (None,) * len(problem.types)
    return tuple(int(problem.budget * WIDEST_BUDGET) // max(option.price, 1) for option in problem.types)


def _enough(problem: Problem, option: TypeOption, alone: float) -> int | None:
    """alone: instances of the type that carry the next step alone."""
    bought = 0 if problem.budget is None else problem.budget // max(option.price, 1)
    return max(math.ceil(alone) + 1, bought) if math.isfinite(alone) else None
