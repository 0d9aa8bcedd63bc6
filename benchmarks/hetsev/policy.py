"""What runs a cluster's services: it looks at regular times, and says which instances start and stop."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Protocol, runtime_checkable

from hetserve.base.units import MiB
from hetserve.dispatch import Policy

STEP: Final = 15.0
"""Seconds over which rates are counted, and between looks of a controller, if it does not say otherwise."""


@dataclass(frozen=True, slots=True)
class GpuSeen:
    """One GPU. type: also the name of the instance type."""

    name: str
    node: str
    type: str
    memory_mib: MiB


@dataclass(frozen=True, slots=True)
class InstanceSeen:
    """An instance that holds memory of its GPU.

    launched, ready: when it started, and when it can serve, which may be to come [s]. leaving: it takes no new query,
    and is gone when it has served those that it has. busy: share of the last STEP in which it served. name: as it was
    started with.
    """

    id: int
    name: str
    service: str
    type: str
    gpu: str
    launched: float
    ready: float
    leaving: bool
    busy: float


@dataclass(frozen=True, slots=True)
class ServiceSeen:
    """What is measured of a service.

    expected: queries/s that its user expected before anything was measured. sent, answered: queries/s of each STEP of
    the last 120 s, the newest last; fewer or none at the beginning. waiting: queries that no instance serves yet.
    latency: the SLO's percentile of the queries answered in the last STEP [s]; nan: none. late: share of these beyond
    the SLO.
    """

    name: str
    expected: float
    sent: tuple[float, ...]
    answered: tuple[float, ...]
    waiting: int
    latency: float
    late: float


@dataclass(frozen=True, slots=True)
class Seen:
    """The cluster at a look. now: seconds; the measured time begins at 0, looks before warm the cluster up."""

    now: float
    services: Mapping[str, ServiceSeen]
    instances: tuple[InstanceSeen, ...]
    gpus: tuple[GpuSeen, ...]

    def on(self, gpu: str) -> tuple[InstanceSeen, ...]:
        """Instances that hold memory of a GPU."""
        return tuple(one for one in self.instances if one.gpu == gpu)

    def of(self, service: str) -> tuple[InstanceSeen, ...]:
        """Instances of a service that are not leaving, launching ones included."""
        return tuple(one for one in self.instances if one.service == service and not one.leaving)


@dataclass(frozen=True, slots=True)
class Start:
    """A new instance on a GPU; its type is the GPU's. It serves after its launch time. name: the controller's own."""

    service: str
    gpu: str
    name: str = ""


@dataclass(frozen=True, slots=True)
class Decided:
    """start: in this order. stop: ids of instances; they serve what they have. What stops is released first."""

    start: tuple[Start, ...] = ()
    stop: tuple[int, ...] = ()


class Controller(Protocol):
    """Whatever runs the cluster. The simulator refuses what no cluster could do: it never corrects a decision.

    shares: whether an instance pays for its own memory alone in the paper's accounting (else for its GPU). interval:
    seconds between looks. dispatch: the policy by which each service hands its queries to its instances.
    """

    name: str
    shares: bool
    interval: float
    dispatch: Policy

    def decide(self, seen: Seen) -> Decided:
        """What starts and stops now."""
        ...


@runtime_checkable
class ExpectsSlower(Protocol):
    """A controller whose dispatcher counts on slower service. expected: {type: factor}, as of an engine's service."""

    expected: Mapping[str, float]
