"""The input of a planner: one service's types, prices, profiles, load and free resources."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Final

from hetserve.base.units import QPS, MiB, MicroDollarsPerHour, MilliCPU, Millionths, Seconds
from hetserve.demand import BatchMix
from hetserve.planning.prices import UnitPrice
from hetserve.planning.tenancy import GpuDemand
from hetserve.profiles import LatencyProfile
from hetserve.registry.dispatch_policies import default_dispatch_policy
from hetserve.registry.planners import Objective, default_planner

MOST_REPLICAS: Final = 2**31 - 1
"""A Deployment's `replicas` is an int32."""


@dataclass(frozen=True, slots=True)
class ResourceAmounts:
    """gpus: of an instance, 1 where it keeps off GPUs with others of its service; of a pool, those that have a place
    for an instance of the type that finds one most easily.
    """

    cpu: MilliCPU = MilliCPU(0)
    memory: MiB = MiB(0)
    gpu_memory: MiB = MiB(0)
    gpus: int = 0

    @property
    def all(self) -> tuple[int, ...]:
        """In the order of `RESOURCES`."""
        return self.cpu, self.memory, self.gpu_memory, self.gpus


RESOURCES: Final = (
    ("CPU", "millicores"),
    ("memory", "MiB"),
    ("GPU memory", "MiB"),
    ("GPUs", "places"),
)
"""What instances take from a pool: name and unit."""


@dataclass(frozen=True, slots=True)
class Pool:
    name: str
    free: ResourceAmounts


@dataclass(frozen=True, slots=True)
class OwnTerms:
    """How instances of a type would share GPUs if the service tolerated any slow-down.

    price: of the type. profile: with a GPU for each instance. least: where the cluster takes none at the installation's
    slow-down, the least tolerance at which it takes one; None: it takes some at that, or none at any.
    """

    gpu: GpuDemand
    price: UnitPrice
    profile: LatencyProfile
    least: Millionths | None = None

    def at(self, tolerance: Millionths) -> GpuDemand:
        """What an instance takes of its GPU on a tolerance."""
        assert self.gpu.terms is not None  # noqa: S101  it shares
        return replace(self.gpu, terms=replace(self.gpu.terms, tolerance=tolerance))

    def cost(self, tolerance: Millionths) -> MicroDollarsPerHour:
        """Micro-dollars/h of an instance."""
        gpu = self.at(tolerance)
        return self.price.instance(gpu.memory, gpu.compute, gpu.terms, copies=gpu.copies)


@dataclass(frozen=True, slots=True)
class TypeOption:
    """One instance type as this service may use it.

    price: of one instance, micro-dollars/h. max_instances: running ones included: the type's limit or, if smaller, what
    the cluster holds and has room for; None: unknown. min_instances: of a feasible plan. running: the service's
    instances now. demand: of one new instance on its pool. pool: a name; None without a cluster. gpu: how an
    instance has its GPU; None on CPU types. profile: slowed by `slowdown` where it shares one. own: of a service that
    tolerates what its load leaves room for, how it shares then (`planning.tolerances`).
    """

    name: str
    price: MicroDollarsPerHour
    profile: LatencyProfile
    max_instances: int | None = None
    min_instances: int = 0
    running: int = 0
    launch_time: Seconds = Seconds(0.0)
    demand: ResourceAmounts = ResourceAmounts()
    pool: str | None = None
    gpu: GpuDemand | None = None
    own: OwnTerms | None = None

    @property
    def most(self) -> int:
        """`max_instances`, or the most that a Deployment can request."""
        return MOST_REPLICAS if self.max_instances is None else self.max_instances

    @property
    def shares(self) -> bool:
        """Whether an instance books a part of a GPU, and its service times are those of a shared one."""
        return self.gpu is not None and self.gpu.shares

    @property
    def slowdown(self) -> Millionths | None:
        """Times longer than alone that `profile` is; None where no GPU is shared."""
        return None if self.gpu is None else self.gpu.slowdown

    def launch_charge(self, weight: float) -> int:
        """Micro-dollars that launching one instance weighs: price x lambda x launch time (HetSev, section 4.1)."""
        return round(Fraction(self.price) * Fraction(weight) * Fraction(self.launch_time))


@dataclass(frozen=True, slots=True)
class TypeRefusal:
    subject: str
    reason: str


@dataclass(frozen=True, slots=True)
class LatencySlo:
    """`percentile` percent of queries within `latency` seconds."""

    latency: Seconds
    percentile: float = 99.0


@dataclass(frozen=True, slots=True)
class Problem:
    """Everything that a plan depends on: equal problems get equal plans.

    load: queries/s (MinCost); 0 where some instances are wanted without any. saturation_threshold: ilp and greedy plan
    for load / threshold (HetSev: 1). launch_weight: HetSev's lambda, per second of launch time. base: a type; None: the
    highest Q_b per dollar. left_out: types that are no options. policy: the dispatch policy that will serve. planner:
    the one that is wanted; None: the objective's default. unshared: the types if each instance had its GPU alone,
    without facts of the cluster, for what the verdict says of sharing; empty where no type shares. least_total,
    most_total: bounds on the instances of all types together; None: none. They are MinCost's: planners flow, ilp and
    greedy keep them, others refuse a problem that has any.
    """

    service: str
    objective: Objective
    slo: LatencySlo
    mix: BatchMix
    types: tuple[TypeOption, ...]
    budget: MicroDollarsPerHour | None = None
    load: QPS | None = None
    saturation_threshold: float = 0.8
    launch_weight: float = 1 / 3600
    base: str | None = None
    pools: tuple[Pool, ...] = field(default=())
    left_out: tuple[TypeRefusal, ...] = field(default=())
    policy: str = field(default_factory=default_dispatch_policy)
    planner: str | None = None
    unshared: tuple[TypeOption, ...] = field(default=())
    least_total: int = 0
    most_total: int | None = None

    @property
    def bounds_total(self) -> bool:
        return self.least_total > 0 or self.most_total is not None

    def allows_total(self, instances: int) -> bool:
        """Whether so many instances of all types together are within `least_total` and `most_total`."""
        return self.least_total <= instances and (self.most_total is None or instances <= self.most_total)

    def most_of(self, option: TypeOption) -> int | None:
        """The most instances of a type by its limit and what its pool has free; None: any number."""
        limits = [] if option.max_instances is None else [option.max_instances]
        for pool in self.pools:
            if pool.name == option.pool:
                pairs = zip(option.demand.all, pool.free.all, strict=True)
                limits += [option.running + max(free, 0) // need for need, free in pairs if need]
        return min(limits, default=None)

    @property
    def planned_by(self) -> str:
        return self.planner or default_planner(self.objective)
