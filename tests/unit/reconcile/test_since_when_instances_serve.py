"""Since when the instances in force serve, as their pods say."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from hetserve.base.units import Seconds
from hetserve.reconcile.cluster.launch_times import served_since
from hetserve.reconcile.cluster.observed import PodFact, pod_fact

Json = dict[str, Any]
NOW = datetime(2026, 11, 23, 13, 10, tzinfo=UTC)
HOUR = 3600.0


def ago(seconds: float) -> str:
    return (NOW - timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def serving(
    since: str | None,
    status: str = "True",
    *,
    kind: str = "t4",
    ran: float | None = None,
    restarts: int = 0,
    terminating: bool = False,
) -> PodFact:
    """since: when it became Ready. ran: seconds ago at which its container began."""
    labels = {"hetserve.io/instance-type": kind}
    metadata: Json = {"name": "p", "namespace": "default", "uid": "u", "creationTimestamp": ago(HOUR), "labels": labels}
    if terminating:
        metadata["deletionTimestamp"] = ago(1)
    ready = {"type": "Ready", "status": status, "lastTransitionTime": since}
    scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": ago(HOUR if ran is None else ran)}
    said: Json = {"conditions": [scheduled, ready]}
    if ran is not None:
        said["containerStatuses"] = [{"restartCount": restarts, "state": {"running": {"startedAt": ago(ran)}}}]
    found = pod_fact({"metadata": metadata, "spec": {"containers": []}, "status": said})
    assert found is not None
    return found


def served(*pods: PodFact, counts: dict[str, int], declared: float = 60.0) -> float | None:
    """Seconds ago."""
    latest = NOW.timestamp() + 60
    since = served_since(pods, counts, {name: Seconds(declared) for name in counts}, latest)
    return None if since is None else NOW.timestamp() - since


def test_the_instance_that_became_ready_last_counts() -> None:
    assert served(*(serving(ago(at), ran=at + 30) for at in (300, 240, 600)), counts={"t4": 3}) == 240.0


def test_what_is_not_in_force_says_nothing() -> None:
    old = serving(ago(300), ran=330), serving(ago(240), ran=270)
    surplus = serving(ago(5), ran=30), serving(ago(5), kind="v100", ran=30)

    assert served(*old, *surplus, counts={"t4": 2}) == 240.0
    assert served(*old, *surplus, counts={"t4": 2, "v100": 0}) == 240.0
    assert served(*old, *surplus, counts={"t4": 2, "v100": 1}) == 5.0


def test_a_pod_that_becomes_ready_again_has_served_since_its_containers_run() -> None:
    """A probe that fails for a moment each minute would else hide for good that queries are late."""
    flapping = serving(ago(5), ran=HOUR)

    assert served(flapping, counts={"t4": 1}) == HOUR
    assert served(serving(ago(5), ran=590), counts={"t4": 1}) == 5.0, "it may have loaded its model for so long"
    assert served(flapping, counts={"t4": 1}, declared=HOUR) == 5.0, "as this type is said to"
    assert served(serving(ago(5), ran=20, restarts=3), counts={"t4": 1}) == 5.0, "its container began anew"


def test_what_does_not_serve_or_says_no_time_or_one_far_ahead_says_nothing() -> None:
    silent = serving(ago(60), "False"), serving(ago(60), terminating=True), serving(None), serving("soon")
    ahead = serving(ago(-HOUR), ran=30, restarts=1)

    assert served(serving(ago(300), ran=330), *silent, ahead, counts={"t4": 1}) == 300.0
    assert served(*silent, ahead, counts={"t4": 1}) is None
    assert served(serving(ago(300), ran=330), counts={"t4": 2}) is None, "one of two does not serve"
    assert served(counts={"t4": 1}) is None
    assert served(counts={}) is None
