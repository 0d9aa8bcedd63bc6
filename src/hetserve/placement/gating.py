"""Which pods wait at our gate, which the scheduler has in hand, and a pod as the queues see it."""

from __future__ import annotations

from hetserve.api import names
from hetserve.placement.pods import PodView
from hetserve.placement.queues import Waiting


def ours_alone_holds(pod: PodView) -> bool:
    """Whether only our gate holds a pod back: pods with other gates wait for those first."""
    return pod.gates == (names.QUEUE_GATE,) and not pod.terminating


def in_hand(pod: PodView) -> bool:
    """Whether our scheduler has an unbound pod in hand: no gate, not ending."""
    ours = pod.scheduler == names.SCHEDULER_NAME and pod.request.needs_gpu
    return ours and pod.node is None and not pod.gates and not pod.terminating


def waiting(pod: PodView) -> Waiting:
    """A pod as the queues see it; one that needs no GPU has none."""
    request = pod.request
    return Waiting(
        uid=request.uid,
        namespace=request.namespace,
        name=request.name,
        memory_mib=request.memory_mib,
        model=request.model,
        since=pod.created_at,
        priority=request.priority,
        gpus=request.gpus if request.needs_gpu else 0,
    )
