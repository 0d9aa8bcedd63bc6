"""What is simulated together: services, their instances on GPUs, and what these take of a GPU."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from hetserve.dispatch import LatencyModel, Policy
from hetserve.dispatch.joining import JoiningPolicy
from hetserve.dispatch.joining.interface import Prepared
from hetserve.dispatch.joining.kernel import decide
from hetserve.objects.gpu_sharing import ONE
from hetserve.profiles.sharing import ComputeShare
from hetserve.serving.system import System
from hetserve.serving.variants import VariantSystem

MEASURED_AT = 8.0
"""Batch of both neighbours at which a coefficient c counts in full [items]."""


def coefficient(factor: float, own: int, other: int) -> float:
    """Coefficient c of a factor (at least 1) on a neighbour's latency, measured at these batches of both."""
    return (factor - 1) * MEASURED_AT / math.sqrt(own * other)


@dataclass(frozen=True, slots=True)
class ComputeUse:
    """What a busy instance takes of its GPU, and does to its neighbours.

    share: of the GPU's compute, above 0 and at most 1. inflicts: {service: c}, the coefficient by which it slows that
    service's instances (`hetserve.serving.progress`). otherwise: c for services that `inflicts` leaves out.
    """

    share: float = 1.0
    inflicts: Mapping[str, float] = field(default_factory=dict)
    otherwise: float = 0.0

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise ValueError(f"share {self.share}: must be above 0 and at most 1")
        for name, c in (*self.inflicts.items(), ("others", self.otherwise)):
            if not (math.isfinite(c) and c >= 0):
                raise ValueError(f"interference {c} with {name}: must be at least 0")

    def on(self, service: str) -> float:
        """Coefficient c toward instances of a service."""
        return self.inflicts.get(service, self.otherwise)


UNMEASURED = ComputeUse()
"""One busy instance uses the whole GPU; copies share its time and do each other no other harm."""


@dataclass(frozen=True, slots=True, eq=False)
class Service:
    """One service: instance types that serve its model, its dispatch policy, and what its instances take by type.

    A model of several variants is served under a joining policy, others under one that pairs queries with instances.
    uses: types that are left out are UNMEASURED. expected: {type: factor} on the service times that the policy
    predicts, for example the greatest slow-down that sharing may cause, 1 for types that are left out; the policy sees
    no neighbours, and queries take their own times.
    """

    name: str
    system: System
    policy: Policy | JoiningPolicy
    uses: Mapping[str, ComputeUse] = field(default_factory=dict)
    expected: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if isinstance(self.policy, JoiningPolicy) != isinstance(self.system, VariantSystem):
            raise ValueError(f"{self.name}: policy {self.policy.name}: variants, and only they, need a joining policy")
        for unknown in sorted((self.uses.keys() | self.expected.keys()) - set(self.system.types)):
            raise ValueError(f"{self.name}: no instance type {unknown}; there are: {', '.join(self.system.types)}")
        for name, factor in self.expected.items():
            if not (math.isfinite(factor) and factor >= 1):
                raise ValueError(f"{self.name}: expected slow-down {factor} on {name}: must be at least 1")

    def use(self, type_name: str) -> ComputeUse:
        return self.uses.get(type_name, UNMEASURED)

    @property
    def predicted(self) -> LatencyModel:
        """Service times as the policy sees them."""
        given = self.system.predicted
        if not self.expected:
            return given
        by_type = [self.expected.get(name, 1.0) for name in self.system.types]
        factors = np.repeat(by_type, self.system.rows_per_type)[:, None]
        mean, safe = given.arrays.mean * factors, given.arrays.safe * factors
        return LatencyModel.of(given.types, given.batches.tolist(), mean, self.system.slo, safe, given.base)

    @property
    def kernel(self) -> Callable[..., tuple[int, int, float]]:
        """The policy's; all joining policies have one."""
        return decide if isinstance(self.policy, JoiningPolicy) else self.policy.kernel

    @property
    def prepared(self) -> Prepared:
        """What the policy reads besides queue and instances."""
        if not isinstance(self.policy, JoiningPolicy):
            return Prepared(self.predicted.arrays.mean, self.policy.parameters)
        assert isinstance(self.system, VariantSystem)  # noqa: S101  checked
        return self.policy.prepare(self.system.model(self.predicted))


@dataclass(frozen=True, slots=True)
class GpuInstance:
    """An instance of a service. gpu: any name; instances with the same one share it."""

    service: str
    type: str
    gpu: str


def check_services(services: Sequence[Service]) -> None:
    """Raises ValueError for no service, or a repeated name."""
    if not services:
        raise ValueError("no service given: at least one is needed")
    names = [service.name for service in services]
    if len(set(names)) < len(names):
        raise ValueError(f"services need names of their own, got {', '.join(sorted(names))}")


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A service as its neighbours on a GPU see it. largest: batch of its mix [items]."""

    name: str
    namespace: str
    model: str
    largest: int


def compute_use(found: ComputeShare | None, own: Neighbour, neighbours: Iterable[Neighbour]) -> ComputeUse:
    """Use of an instance of `own`: `spec.computeShare` and `spec.interference` of its profile; without: UNMEASURED.

    A factor was measured at the mix's largest batch and the entry's batch of the other. Of several for one model the
    worst counts; models of other namespaces, and those without an entry, get the greatest, at their largest batch.
    """
    if found is None:
        return UNMEASURED
    greatest, interference = found.greatest_factor / ONE, found.interference

    def toward(other: Neighbour) -> float:
        near = other.namespace == own.namespace
        named = [(e.factor / ONE, e.batch) for e in interference if near and e.model == other.model]
        worst = named or [(greatest, other.largest)]
        return max(coefficient(factor, own.largest, batch) for factor, batch in worst)

    return ComputeUse(found.share / ONE, {other.name: toward(other) for other in neighbours})
