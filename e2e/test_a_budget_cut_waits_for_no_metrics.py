"""Promise: a service that follows its load obeys a lower budget at once, also while Prometheus answers nothing."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from harness import limits
from harness.cluster import Cluster
from harness.follower import BUSY, CALM, PRICE, STALE_AFTER, Follower, least
from harness.prometheus import Prometheus
from harness.sandbox import Sandbox
from harness.twin import Twin
from harness.waiting import Unmet, wait_until

AFFORDED = 3
GOAL = 15
"""Seconds until the Deployments ask for no more than the budget; the promise is 120."""


@pytest.mark.timeout(limits.LONG_TEST)
def test_a_cut_is_obeyed_while_prometheus_hangs_and_both_numbers_are_told(
    cluster: Cluster, prometheus: Prometheus, twin: Twin, namespace: str, tmp_path: Path
) -> None:
    with Sandbox.cleared(cluster, namespace) as sandbox:
        follower = Follower.of_one_type(sandbox, prometheus, twin)
        follower.begin(budget={"hourly": f"{12 * PRICE}"})
        sandbox.ready("svc")
        follower.play([(0, CALM), (2, BUSY)])
        follower.reaches(least(BUSY), least(BUSY) + 3, limits.REACTION, "instances for the load")
        mark = follower.mark()

        prometheus.freeze()
        follower.becomes("MetricsAvailable", "False", 4 * STALE_AFTER)
        begun = time.monotonic()
        budget = AFFORDED * PRICE + 0.1
        sandbox.edit("svc", {"spec": {"budget": {"hourly": f"{budget}"}}})
        wait_until(lambda: follower.instances() <= AFFORDED or Unmet(follower.told()), GOAL, "the cut")
        print(f"obeyed {time.monotonic() - begun:.1f} s after it was lowered: {follower.totals_since(mark)}")

        def said() -> bool | Unmet:
            found = {one["type"]: one for one in follower.status()["conditions"]}
            within, feasible = found["WithinBudget"], found["Feasible"]
            costs = f"what runs costs {AFFORDED * PRICE:.3f} $/h, the budget is {budget:.3f} $/h"
            right = (within["status"], within["message"]) == ("True", costs)
            return (right and feasible["status"] == "False" and f"{budget:g} $/h" in feasible["message"]) or Unmet(
                found
            )

        wait_until(said, limits.REACTION, "both conditions to tell the cut")
        prometheus.thaw()
        follower.becomes("MetricsAvailable", "True", limits.REACTION)
        assert follower.instances() == AFFORDED, "the load asks for more, and the budget allows none"

        sandbox.edit("svc", {"spec": {"budget": {"hourly": f"{12 * PRICE}"}}})
        follower.reaches(least(BUSY), least(BUSY) + 3, limits.ROLLOUT, "instances for the load again")
        print(follower.told())
        assert "BudgetCut" in set(follower.replayed(tmp_path)) | {reason for _, reason, _, _ in follower.told()}
