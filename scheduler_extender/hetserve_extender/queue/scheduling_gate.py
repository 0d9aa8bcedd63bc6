"""Our scheduling gate on the API server: the patch that lifts it, and the event that says it was lifted out of turn."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import Final, Literal

from hetserve.api import names
from hetserve.placement import Waiting
from hetserve.placement.pods.scheduling_gate import Stuck
from hetserve.sanitize import sanitize
from hetserve.units import Seconds
from hetserve_shell.kube.client import JSON_PATCH, ApiServer, pod_path
from hetserve_shell.kube.connection import ApiUnreachableError

log = logging.getLogger(__name__)

Lifted = Literal["released", "refused", "lost"]
FAIL_OPEN_REASON: Final = "QueueFailedOpen"
STUCK_REASON: Final = "QueueCannotRead"


async def lift(api: ApiServer, pod: Waiting) -> tuple[Lifted, str]:
    """Remove our gate if the pod is still the one we mean and has no other; says what became of it, in words.

    A lost answer may have been carried out.
    """
    guarded = [
        {"op": "test", "path": "/metadata/uid", "value": pod.uid},
        {"op": "test", "path": "/spec/schedulingGates", "value": [{"name": names.QUEUE_GATE}]},
        {"op": "remove", "path": "/spec/schedulingGates"},
    ]
    try:
        answer = await api.request("PATCH", pod_path(pod.namespace, pod.name), body=guarded, content_type=JSON_PATCH)
    except ApiUnreachableError as error:
        return "lost", str(error)
    return ("released", "") if answer.ok else ("refused", answer.message)


async def tell(api: ApiServer, pod: Waiting | Stuck, reason: str, message: str, now: Seconds) -> None:
    """Write a warning event about a pod; one that cannot be written is only logged."""
    at = datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        # One per pod: a second attempt to say the same is refused as a duplicate.
        "metadata": {"name": f"{pod.name[:200]}.{reason.lower()}.{pod.uid}", "namespace": pod.namespace},
        "involvedObject": {
            "apiVersion": "v1",
            "kind": "Pod",
            "namespace": pod.namespace,
            "name": pod.name,
            "uid": pod.uid,
        },
        "type": "Warning",
        "reason": reason,
        "message": sanitize(message),
        "source": {"component": "hetserve-extender"},
        "firstTimestamp": at,
        "lastTimestamp": at,
        "count": 1,
    }
    try:
        answer = await api.request("POST", f"/api/v1/namespaces/{pod.namespace}/events", body=event)
    except ApiUnreachableError as error:
        log.warning("event for %s/%s: %s", pod.namespace, pod.name, error)
        return
    if not answer.ok and answer.status != 409:
        log.warning("event for %s/%s: %s", pod.namespace, pod.name, answer.message)
