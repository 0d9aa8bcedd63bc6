"""Requests about our scheduling gate: the patch that removes it, and warning events."""

from __future__ import annotations

import logging
from typing import Final, Literal

from hetserve.api import names
from hetserve.placement import Waiting
from hetserve.placement.pods.scheduling_gate import Stuck
from hetserve.sanitize import sanitize
from hetserve_shell.kube.client import JSON_PATCH, ApiServer, ApiStatusError, pod_path
from hetserve_shell.kube.connection import ApiUnreachableError
from hetserve_shell.kube.events import Event, EventRecorder

log = logging.getLogger(__name__)

PatchOutcome = Literal["released", "refused", "lost"]
FAIL_OPEN_REASON: Final = "QueueFailedOpen"
UNREADABLE_REASON: Final = "QueueCannotRead"
REPORTER: Final = "hetserve-extender"
ACTION: Final = "Queue"


async def remove_gate(api: ApiServer, pod: Waiting) -> tuple[PatchOutcome, str]:
    """Removes our gate from a pod with this UID and no other gate.

    Returns the outcome and the error. "lost": no answer, the patch may have landed.
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


async def post_warning(events: EventRecorder, pod: Waiting | Stuck, reason: str, message: str) -> None:
    """Posts a warning event about a pod, once per reason; logs a failure."""
    regarding = {"apiVersion": "v1", "kind": "Pod", "namespace": pod.namespace, "name": pod.name, "uid": pod.uid}
    name = f"{pod.name[:200]}.{reason.lower()}.{pod.uid}"
    try:
        await events.post(Event(name, regarding, ACTION, reason, sanitize(message), warning=True))
    except (ApiStatusError, ApiUnreachableError) as error:
        log.warning("event for %s/%s: %s", pod.namespace, pod.name, error)
