"""What a planner is given: one service's frozen snapshot of types, prices, profiles, load and capacity."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from hetserve.demand import BatchMix
from hetserve.planning.plan import Refusal
from hetserve.profiles import LatencyProfile
from hetserve.registry.planners import Objective
from hetserve.units import QPS, MiB, MicroDollarsPerHour, MilliCPU, Seconds

MOST_REPLICAS: Final = 2**31 - 1
"""A Deployment's `replicas` is an int32."""


@dataclass(frozen=True, slots=True)
class Resources:
    """Host CPU and memory, and GPU memory."""

    cpu: MilliCPU = MilliCPU(0)
    memory: MiB = MiB(0)
    gpu_memory: MiB = MiB(0)


@dataclass(frozen=True, slots=True)
class Pool:
    """Nodes that instances of one or several types draw on, with what is free on them now."""

    name: str
    free: Resources


@dataclass(frozen=True, slots=True)
class TypeOption:
    """One instance type as this service may use it.

    price: of one instance of this service, micro-dollars per hour. max_instances: most instances that this
    service can hold in all, running ones included (the smaller of the type's own limit and, on GPUs, the
    healthy GPUs with room and without this model plus those it already holds); None: no limit known.
    min_instances: a feasible plan holds at least so many. running: instances it holds now. demand: what one new
    instance takes from its pool; pool: name, or None without a cluster.
    """

    name: str
    price: MicroDollarsPerHour
    profile: LatencyProfile
    max_instances: int | None = None
    min_instances: int = 0
    running: int = 0
    launch_time: Seconds = Seconds(0.0)
    demand: Resources = Resources()
    pool: str | None = None

    @property
    def most(self) -> int:
        """Most instances there can be: `max_instances`, or what a Deployment can ask for."""
        return MOST_REPLICAS if self.max_instances is None else self.max_instances


@dataclass(frozen=True, slots=True)
class Slo:
    """`percentile` percent of queries within `latency` seconds."""

    latency: Seconds
    percentile: float = 99.0


@dataclass(frozen=True, slots=True)
class Problem:
    """Everything that a plan depends on; two equal problems get equal plans.

    load: queries/s to carry (MinCost). mix: of batch sizes. saturation_threshold: MinCost plans for
    load / threshold (1 reproduces HetSev). launch_weight: HetSev's lambda, per second of launch time;
    1/3600 charges a new instance its price while it launches, over a horizon of an hour.
    base: name of the base type, or None to choose it (DESIGN: highest Q_b per dollar).
    left_out: types that never became options, with the reason; every plan repeats them.
    """

    service: str
    objective: Objective
    slo: Slo
    mix: BatchMix
    types: tuple[TypeOption, ...]
    budget: MicroDollarsPerHour | None = None
    load: QPS | None = None
    saturation_threshold: float = 0.8
    launch_weight: float = 1 / 3600
    base: str | None = None
    pools: tuple[Pool, ...] = field(default=())
    left_out: tuple[Refusal, ...] = field(default=())
