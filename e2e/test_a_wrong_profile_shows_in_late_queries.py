"""Promise: where queries take longer than the profiles say, those that are late bring instances."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from harness import limits
from harness.cluster import Cluster
from harness.follower import CALM, Follower, least
from harness.prometheus import Prometheus
from harness.sandbox import Sandbox
from harness.twin import Twin
from harness.waiting import Unmet, wait_until

SLO = 0.35
"""Seconds."""
FACTOR = 2
"""Times as long as the profiles say: what is planned is busy nearly all the time."""
JUDGED = 10
"""Seconds of queries that are judged at once."""


class Lately:
    """Queries since a moment: how many ended, and how many of them in time."""

    def __init__(self, follower: Follower) -> None:
        self._follower = follower
        self._begun, self._before = time.monotonic(), self._now()

    def _now(self) -> tuple[int, int]:
        return self._follower.twin.ended(*self._follower.key, SLO)

    def share(self) -> float | None:
        """In time; None: it is too early. The next one begins now."""
        if time.monotonic() - self._begun < JUDGED:
            return None
        ended, in_time = (new - old for new, old in zip(self._now(), self._before, strict=True))
        self._begun, self._before = time.monotonic(), self._now()
        return in_time / ended


@pytest.mark.timeout(limits.LONG_TEST)
def test_late_queries_bring_instances_until_the_slo_holds(
    cluster: Cluster, prometheus: Prometheus, twin: Twin, namespace: str, tmp_path: Path
) -> None:
    with Sandbox.cleared(cluster, namespace) as sandbox:
        follower = Follower.of_one_type(sandbox, prometheus, twin)
        follower.begin()
        sandbox.ready("svc")
        planned, mark = follower.instances(), follower.mark()
        assert planned <= least(CALM) + 1
        follower.play([(0, CALM)], latencyFactor=f"{FACTOR}")
        lately = Lately(follower)

        told = follower.decides("SLOMissed", limits.ROLLOUT)
        assert told["action"] == "ScaleUp"
        assert "met the SLO" in told["message"]

        def holds() -> bool | Unmet:
            share = lately.share()
            return (share is not None and share >= 0.99) or Unmet((share, follower.told()))

        wait_until(holds, limits.ROLLOUT, f"99 % of the queries of {JUDGED} s in time")
        written = follower.totals_since(mark)
        print(f"{written} instances; {follower.told()}")
        assert written == sorted(written), "more, and never fewer"
        assert written[-1] <= 2 * least(CALM), "as many as the profiles say may be wrong by, and no more"
        assert "SLOMissed" in follower.replayed(tmp_path)


def test_a_profile_that_is_right_brings_no_more(
    cluster: Cluster, prometheus: Prometheus, twin: Twin, namespace: str
) -> None:
    with Sandbox.cleared(cluster, namespace) as sandbox:
        follower = Follower.of_one_type(sandbox, prometheus, twin)
        follower.begin()
        sandbox.ready("svc")
        planned = follower.instances()
        follower.play([(0, CALM)])
        lately = Lately(follower)
        shares = [wait_until(lately.share, 3 * JUDGED, f"queries of {JUDGED} s") for _ in range(3)]
        print(f"{shares} in time; {follower.told()}")
        assert min(shares) >= 0.98
        assert follower.instances() == planned
        assert "SLOMissed" not in {reason for _, reason, _, _ in follower.told()}
