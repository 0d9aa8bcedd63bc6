"""Which pods wait at our gate, and which the scheduler has."""

from __future__ import annotations

from dataclasses import dataclass

from hetserve.api import names
from hetserve.base.units import Percent
from hetserve.objects.metadata import RawObject
from hetserve.objects.pod import PodOutline
from hetserve.placement.pods.view import PodView
from hetserve.placement.queues.rounds import Waiting


@dataclass(frozen=True, slots=True)
class Stuck:
    """A pod at our gate that cannot be read and is in no queue. `why`: names the field."""

    uid: str
    namespace: str
    name: str
    why: str


def stuck(raw: RawObject, why: str) -> Stuck | None:
    pod = PodOutline(raw)
    return Stuck(pod.uid, pod.namespace, pod.name, why) if names.QUEUE_GATE in pod.gates else None


def ours_alone_holds(pod: PodView) -> bool:
    return pod.gates == (names.QUEUE_GATE,) and not pod.terminating


def in_hand(pod: PodView) -> bool:
    """Whether our scheduler has an unbound pod: no gate, not ending."""
    ours = pod.scheduler == names.SCHEDULER_NAME and pod.request.needs_gpu
    return ours and pod.node is None and not pod.gates and not pod.terminating


def may_be_placed(pod: PodView) -> bool:
    """Whether a place may be kept for an unbound pod: our scheduler has it, or will once our gate is lifted."""
    ours = pod.scheduler == names.SCHEDULER_NAME and pod.request.needs_gpu and pod.complaint is None
    return ours and pod.node is None and set(pod.gates) <= {names.QUEUE_GATE} and not pod.terminating


def waiting(pod: PodView) -> Waiting:
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
        compute=request.compute or Percent(0),
    )
