"""Promise: where the scheduler has no place for what is planned of a type, the next best type is taken.

How soon: tests/unit/operator/test_operator_scales_by_prometheus.py, in virtual time.
"""

from __future__ import annotations

from pathlib import Path

from harness import limits
from harness.cluster import Cluster
from harness.follower import BUSY, PER_INSTANCE, Follower
from harness.prometheus import Prometheus
from harness.sandbox import Sandbox
from harness.twin import Twin
from harness.waiting import Unmet, wait_until

PLACES = 5
"""Of the cheap type: its nodes have GPUs for twice as many, and take one pod each, as plans cannot know."""
TWICE = 2 * PER_INSTANCE
"""Queries/s that an instance of the dear type carries."""


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
        follower.play([(0, BUSY)])
        assert follower.decides("TypeScarce", limits.ROLLOUT)["instanceType"] == cheap

        def placed() -> bool | Unmet:
            counts, bound = follower.counts(), len(sandbox.bound())
            return (bound == sum(counts.values()) and dear in counts and counts[cheap] <= PLACES) or Unmet(
                (counts, bound)
            )

        wait_until(placed, limits.REACTION, "all that is planned to have its place")
        sandbox.ready("svc")
        assert max(seen.get(cheap, 0) for seen in follower.since(mark)) > PLACES
        assert "TypeScarce" in follower.replayed(tmp_path)
