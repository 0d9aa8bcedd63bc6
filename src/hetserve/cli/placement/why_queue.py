"""The place of a gated pod, as a snapshot shows it: order of age and the bound on waiting."""

from __future__ import annotations

import time
from typing import Any

from hetserve.placement.placer import Placer
from hetserve.placement.pods.view import PodView
from hetserve.placement.queues.rounds import OLDEST_EVERY, ours_alone_holds, waiting


def place_in_queue(pod: PodView, placer: Placer, taken_at: float | None, beta: int) -> dict[str, Any]:
    """Numbers of waiting and of older pods, and of releases until the pod's at the latest."""
    line = [other for other in placer.pods.values() if ours_alone_holds(other) or other.uid == pod.uid]
    peers = [other for other in line if other.request.priority == pod.request.priority]
    older = sum(_age(other) < _age(pod) for other in peers)
    alike = [other for other in peers if waiting(other).shape == waiting(pod).shape]
    now = time.time() if taken_at is None else taken_at
    return {
        "waiting": len(line),
        "higherPriority": sum(other.request.priority > pod.request.priority for other in line),
        "samePriority": len(peers),
        "older": older,
        "alike": len(alike),
        "olderAlike": sum(_age(other) < _age(pod) for other in alike),
        "releasedWithin": OLDEST_EVERY * (older + 1),
        "beta": beta,
        "waitedSeconds": round(max(now - pod.created_at, 0.0), 3),
    }


def _age(pod: PodView) -> tuple[float, str, str, str]:
    request = pod.request
    return pod.created_at, request.namespace, request.name, request.uid
