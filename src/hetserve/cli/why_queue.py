"""The place of a gated pod in hetserve's queue, as far as a snapshot tells it.

The queues themselves live in the extender; what holds of every partition into queues is the order of age within
a priority, and the bound on waiting that follows from it.
"""

from __future__ import annotations

import time
from typing import Any

from hetserve.api import names
from hetserve.placement import Placer, PodView, QueueSettings
from hetserve.placement.queues import oldest_turn


def place_in_queue(pod: PodView, placer: Placer, taken_at: float | None) -> dict[str, Any]:
    """How many wait, how many of them are older, and after how many releases it is out at the latest."""
    waiting = [other for other in placer.pods.values() if _waits(other) or other.uid == pod.uid]
    peers = [other for other in waiting if other.request.priority == pod.request.priority]
    older = sum(_age(other) < _age(pod) for other in peers)
    alike = [other for other in peers if _shape(other) == _shape(pod)]
    beta = QueueSettings().beta
    now = time.time() if taken_at is None else taken_at
    return {
        "waiting": len(waiting),
        "higherPriority": sum(other.request.priority > pod.request.priority for other in waiting),
        "samePriority": len(peers),
        "older": older,
        "alike": len(alike),
        "olderAlike": sum(_age(other) < _age(pod) for other in alike),
        "releasedWithin": oldest_turn(beta) * (older + 1),
        "beta": beta,
        "waitedSeconds": round(max(now - pod.created_at, 0.0), 3),
    }


def _waits(pod: PodView) -> bool:
    """At our gate and no other: the controller releases only these."""
    return pod.gates == (names.QUEUE_GATE,) and not pod.terminating


def _age(pod: PodView) -> tuple[float, str, str, str]:
    request = pod.request
    return pod.created_at, request.namespace, request.name, request.uid


def _shape(pod: PodView) -> tuple[int, str, int]:
    return pod.request.memory_mib, pod.request.model or "", pod.request.gpus
