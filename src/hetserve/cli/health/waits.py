"""Why pods are not ready, by what the kubelet and the scheduler write into their status."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from hetserve.cli.cluster.client import RawObject
from hetserve.cli.health.facts import WaitFact

_ORDINARY: Final = ("ContainerCreating", "PodInitializing")
"""Every container waits so for a while: told only where nothing else is."""


def waits(pods: Iterable[RawObject]) -> tuple[WaitFact, ...]:
    """What keeps pods that stay, by name of pod; of containers that wait for the same, the first."""
    found: dict[tuple[str, str, str], WaitFact] = {}
    staying = (pod for pod in pods if not pod["metadata"].get("deletionTimestamp"))
    for pod in sorted(staying, key=lambda one: str(one["metadata"]["name"])):
        for one in _of_pod(pod):
            found.setdefault((one.container, one.image, one.reason), one)
    telling = tuple(one for one in found.values() if one.reason not in _ORDINARY)
    return telling or tuple(found.values())


def _of_pod(pod: RawObject) -> Iterator[WaitFact]:
    name, status = str(pod["metadata"]["name"]), pod.get("status") or {}
    for one in status.get("conditions") or ():
        if (one.get("type"), one.get("status")) == ("PodScheduled", "False"):
            yield WaitFact(name, "", "", str(one.get("reason") or ""), _line(one.get("message")))
    images = _images(pod.get("spec") or {})
    for one in (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())):
        container = str(one.get("name"))
        image = images.get(container) or str(one.get("image") or "")
        reason, message, ended = _of_container(one)
        if reason:
            yield WaitFact(name, container, image, reason, message, ended)


def _of_container(status: dict[str, Any]) -> tuple[str, str, bool]:
    """(reason, message, whether it has ended before); no reason where it is ready, or runs for the first time."""
    if status.get("ready"):
        return "", "", False
    state = status.get("state") or {}
    waiting = state.get("waiting") or {}
    ended = state.get("terminated") or (status.get("lastState") or {}).get("terminated") or {}
    last = f"it ended with exit code {ended.get('exitCode')} ({ended.get('reason') or 'no reason'})" if ended else ""
    messages = (_line(waiting.get("message")), last)
    reason = str(waiting.get("reason") or ended.get("reason") or "")
    return reason, "; ".join(one for one in messages if one), bool(ended)


def _images(spec: dict[str, Any]) -> dict[str, str]:
    both = (*(spec.get("initContainers") or ()), *(spec.get("containers") or ()))
    return {str(one.get("name")): str(one.get("image") or "") for one in both}


def _line(message: object) -> str:
    return " ".join(str(message or "").split())
