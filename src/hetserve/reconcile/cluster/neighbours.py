"""Which GPUs hold more beside a service's instances than these may have there.

Only pods from before an upgrade, or bound by an older extender, can be there: the ledger accepts none.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hetserve.base.units import Percent
from hetserve.objects.gpu_sharing import booked_percent
from hetserve.objects.resources import WHOLE_COMPUTE
from hetserve.placement.ledger.inventory import Place
from hetserve.reconcile.cluster.capacity import ClusterCapacity, Service
from hetserve.reconcile.cluster.observed import PodFact


@dataclass(frozen=True, slots=True, order=True)
class CrowdedGpu:
    """A GPU on which a service's slow-down is not bounded.

    undeclared: pods on it that declare no compute, as NAMESPACE/NAME. booked: percent by all others: of what they
    tolerate, where all share on terms, else of its compute.
    """

    node: str
    gpu: str
    undeclared: tuple[str, ...]
    booked: Percent

    def __str__(self) -> str:
        why = f"beside {', '.join(self.undeclared)}" if self.undeclared else f"booked by {self.booked} %"
        return f"GPU {self.gpu} of node {self.node}, {why}"


def crowded_gpus(capacity: ClusterCapacity, service: Service, own: Sequence[PodFact]) -> tuple[CrowdedGpu, ...]:
    """GPUs on which instances of a service that declare compute have neighbours beyond it, by node and id.

    own: its pods, as just read.
    """
    places = capacity.on_gpus_of(service, own)
    promised = {pod.uid for pod in own if pod.booked_compute and not pod.terminating}
    mine = [(place, pods) for place, pods in places.items() if any(pod.uid in promised for pod in pods)]
    return tuple(sorted(filter(None, (_crowded(place, pods) for place, pods in mine))))


def disturbed_by(pod: PodFact, others: Sequence[PodFact]) -> set[Service]:
    """Services that declare compute on a GPU which a pod makes, or made, too full. others: the other pods on it."""
    if not _is_crowded((pod, *others)):
        return set()
    return {(one.namespace, one.service) for one in others if one.service is not None and one.booked_compute}


def _crowded(place: Place, pods: Sequence[PodFact]) -> CrowdedGpu | None:
    if not _is_crowded(pods):
        return None
    undeclared = sorted(f"{pod.namespace}/{pod.name}" for pod in pods if pod.is_undeclared)
    return CrowdedGpu(*place, tuple(undeclared), _booked(pods))


def _is_crowded(pods: Sequence[PodFact]) -> bool:
    booked = _booked(pods)
    return booked > WHOLE_COMPUTE or (booked > 0 and any(pod.is_undeclared for pod in pods))


def _booked(pods: Iterable[PodFact]) -> Percent:
    """Where not all share on terms, one that does counts as the whole GPU, which it asks for."""
    declared = [pod for pod in pods if pod.booked_compute]
    tenants = [pod.tenant for pod in declared if pod.tenant is not None]
    if len(tenants) == len(declared):
        return booked_percent(tenants)
    return Percent(sum(pod.booked_compute for pod in declared))
