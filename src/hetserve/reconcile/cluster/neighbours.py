"""Which GPUs hold more beside a service's instances than these may have there.

Only pods from before an upgrade, or bound by an older extender, can be there: the ledger accepts none.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import repeat

from hetserve.base.units import Percent
from hetserve.objects.gpu_sharing import booked_percents
from hetserve.objects.resources import WHOLE_COMPUTE
from hetserve.placement.ledger.inventory import Place
from hetserve.reconcile.cluster.capacity import ClusterCapacity, Service
from hetserve.reconcile.cluster.observed import PodFact


@dataclass(frozen=True, slots=True, order=True)
class CrowdedGpu:
    """A GPU on which a service's slow-down is not bounded.

    undeclared: pods on it that declare no compute, as NAMESPACE/NAME. booked: percent by all others: of what the
    service's instances tolerate, where all share on terms, else of its compute.
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
    promised = {pod.uid for pod in own if pod.booked_compute and not pod.terminating}
    places = capacity.on_gpus_of(service, own).items()
    return tuple(sorted(filter(None, (_crowded(place, pods, promised) for place, pods in places))))


def disturbed_by(pod: PodFact, others: Sequence[PodFact]) -> set[Service]:
    """Services of the other pods on a GPU, `others`, that declare compute and for which a pod makes it too full."""
    pods = (pod, *others)
    undeclared = any(one.is_undeclared for one in pods)
    disturbed = (one for one, booked in _booked(pods) if one.uid != pod.uid and (undeclared or booked > WHOLE_COMPUTE))
    return {(one.namespace, one.service) for one in disturbed if one.service is not None}


def _crowded(place: Place, pods: Sequence[PodFact], promised: Collection[str]) -> CrowdedGpu | None:
    """promised: UIDs of the service's pods, whose slow-down is to be bounded."""
    booked = max((booked for pod, booked in _booked(pods) if pod.uid in promised), default=None)
    undeclared = sorted(f"{pod.namespace}/{pod.name}" for pod in pods if pod.is_undeclared)
    if booked is None or (booked <= WHOLE_COMPUTE and not undeclared):
        return None
    return CrowdedGpu(*place, tuple(undeclared), booked)


def _booked(pods: Iterable[PodFact]) -> Iterable[tuple[PodFact, Percent]]:
    """Pods that declare compute, and how much of what each tolerates their GPU takes, where all share on terms.

    Elsewhere how much of its compute they book: one that shares on terms the whole GPU, which it asks for.
    """
    declared = [pod for pod in pods if pod.booked_compute]
    tenants = [pod.tenant for pod in declared if pod.tenant is not None]
    if len(tenants) == len(declared):
        return zip(declared, booked_percents(tenants), strict=True)
    return zip(declared, repeat(Percent(sum(pod.booked_compute for pod in declared))))
