"""How a pod came from its node to Ready, as far as its status still tells."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from hetserve.base.units import Seconds
from hetserve.objects.metadata import RawObject
from hetserve.objects.pod import Pod


@dataclass(frozen=True, slots=True)
class Launch:
    """seconds: from its node to Ready. warming: the last of them, since its containers ran; all of them if not told.

    The status has the time of the last change of Ready only. So a pod that was not Ready for a moment, without a
    restart, shows its age in both. Only the time until its containers ran is beyond doubt.
    """

    seconds: Seconds
    warming: Seconds


def launch_of(pod: Pod, raw: RawObject) -> Launch | None:
    """None: it is not Ready, a container of it has run before, or its times cannot be read."""
    scheduled, ready = pod.condition("PodScheduled"), pod.condition("Ready")
    if (scheduled.get("status"), ready.get("status")) != ("True", "True"):
        return None
    with suppress(Exception):  # an odd time or status says nothing, and hides nothing else
        if _restarted(raw["status"]):
            return None
        begin, end = _time(scheduled["lastTransitionTime"]), _became_ready(pod, ready)
        seconds = (end - begin).total_seconds()
        if seconds < 0:
            return None
        warming = (end - _ran(raw["status"], begin)).total_seconds()
        return Launch(Seconds(seconds), Seconds(min(max(warming, 0.0), seconds)))
    return None


def _restarted(status: Mapping[str, Any]) -> bool:
    """An init container may fail and be run again before the pod is Ready; one that still runs is a sidecar."""
    sidecars = [one for one in status.get("initContainerStatuses") or () if "running" in (one.get("state") or {})]
    return any(one.get("restartCount") for one in (*(status.get("containerStatuses") or ()), *sidecars))


def _became_ready(pod: Pod, ready: Mapping[str, Any]) -> datetime:
    """A node that is lost takes Ready away, not ContainersReady. Where the pod has gates of its own, Ready is later."""
    containers, end = pod.condition("ContainersReady"), _time(ready["lastTransitionTime"])
    if pod.spec.get("readinessGates") or containers.get("status") != "True":
        return end
    return min(_time(containers["lastTransitionTime"]), end)


def _ran(status: Mapping[str, Any], otherwise: datetime) -> datetime:
    """When the last container began to run."""
    running = [(one.get("state") or {}).get("running") or {} for one in status.get("containerStatuses") or ()]
    return max((_time(one["startedAt"]) for one in running if "startedAt" in one), default=otherwise)


def _time(told: object) -> datetime:
    return datetime.fromisoformat(str(told))
