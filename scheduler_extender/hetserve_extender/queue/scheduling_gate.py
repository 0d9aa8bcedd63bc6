"""Requests about our scheduling gate: the patch that removes it, and warning events for the pods it holds."""

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

PatchOutcome = Literal["released", "refused", "lost"]
FAIL_OPEN_REASON: Final = "QueueFailedOpen"
UNREADABLE_REASON: Final = "QueueCannotRead"


async def remove_gate(api: ApiServer, pod: Waiting) -> tuple[PatchOutcome, str]:
    """Removes our gate if the pod has the same UID and no other gate.

    Returns the outcome and, unless the pod is released, the error. "lost": no answer, the patch may have landed.
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


async def post_warning(api: ApiServer, pod: Waiting | Stuck, reason: str, message: str, now: Seconds) -> None:
    """Posts a warning event about a pod at the time of day `now`; a failure is logged."""
    at = datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        # One per pod and reason: a second one is refused as a duplicate.
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
