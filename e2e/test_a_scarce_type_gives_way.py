"""Promise: where a type has no place for what is planned, the next best is taken soon after its launch time."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest

from harness import limits
from harness.cluster import Cluster
from harness.follower import BUSY, CALM, LAUNCH, PER_INSTANCE, Follower
from harness.kube import Manifest
from harness.prometheus import Prometheus
from harness.sandbox import Sandbox
from harness.twin import Twin
from harness.waiting import Unmet, wait_until
from hetserve.api.names import LABEL_INSTANCE_TYPE

PLACES = 5
"""Of the cheap type: its nodes have GPUs for twice as many, and take one pod each, as plans cannot know."""
TWICE = 2 * PER_INSTANCE
"""Queries/s that an instance of the dear type carries."""
GOAL = LAUNCH + 30
"""Seconds from a plan that finds no place to the first instance of the next best type that is Ready."""


def seconds_between(earlier: str, later: str) -> float:
    return (datetime.fromisoformat(later) - datetime.fromisoformat(earlier)).total_seconds()


def ready_since(pod: Manifest) -> str | None:
    """When it became Ready; None: it is not."""
    found = {c["type"]: c for c in pod["status"].get("conditions", ())}
    ready = found.get("Ready", {"status": "False"})
    return str(ready["lastTransitionTime"]) if ready["status"] == "True" else None


@pytest.mark.timeout(limits.LONG_TEST)
def test_the_next_best_type_takes_what_the_cheapest_has_no_place_for(
    cluster: Cluster, prometheus: Prometheus, twin: Twin, namespace: str, tmp_path: Path
) -> None:
    with Sandbox.cleared(cluster, namespace) as sandbox:
        follower = Follower(sandbox, prometheus, twin)
        cheap = follower.type("cheap", nodes=PLACES, gpus=2, pods=1, price="0.5")
        dear = follower.type("dear", nodes=6, seconds=1 / TWICE, price="1.2")
        follower.begin()
        sandbox.ready("svc")
        assert follower.counts().keys() == {cheap}
        mark = follower.mark()

        follower.play([(0, CALM), (3, BUSY)])
        left = follower.decides("TypeScarce", limits.ROLLOUT)
        asked = next(entry for entry in follower.status()["lastDecisions"][::-1] if entry["action"] == "ScaleUp")
        assert left["instanceType"] == cheap

        def serving() -> list[str]:
            pods = cluster.pods(namespace, f"{LABEL_INSTANCE_TYPE}={dear}")
            return [since for pod in pods if (since := ready_since(pod)) is not None]

        first = min(wait_until(serving, limits.ROLLOUT, "an instance of the next best type to serve"))
        print(f"{seconds_between(asked['time'], left['time']):.0f} s to the next plan,", end=" ")
        print(f"{seconds_between(asked['time'], first):.0f} s to its first instance; {follower.since(mark)}")
        assert seconds_between(asked["time"], first) <= GOAL

        def placed() -> bool | Unmet:
            counts, bound = follower.counts(), len(sandbox.bound())
            return (bound == sum(counts.values()) and counts[cheap] <= PLACES) or Unmet((counts, bound))

        wait_until(placed, limits.REACTION, "all that is planned to have its place")
        assert max(seen.get(cheap, 0) for seen in follower.since(mark)) > PLACES
        sandbox.ready("svc")
        assert "TypeScarce" in follower.replayed(tmp_path)
