"""Promise: a service that follows its load obeys a lower budget also while Prometheus answers nothing.

How soon, and that nothing shrinks for want of load: tests/unit/operator/test_operator_scales_by_prometheus.py.
"""

from __future__ import annotations

from pathlib import Path

from harness import limits
from harness.cluster import Cluster
from harness.follower import BUSY, PRICE, SCALING, Follower
from harness.prometheus import Prometheus
from harness.sandbox import Sandbox
from harness.twin import Twin
from harness.waiting import Unmet, wait_until

AFFORDED = 3
LOAD = 40.0
"""Queries/s: fewer than the instances are planned for, so that the cut alone changes them."""
STAYS = SCALING | {"scaleDown": {"stabilizationWindow": "5m"}}


def test_a_cut_is_obeyed_while_prometheus_hangs_and_both_numbers_are_told(
    cluster: Cluster, prometheus: Prometheus, twin: Twin, namespace: str, tmp_path: Path
) -> None:
    with Sandbox.cleared(cluster, namespace) as sandbox:
        follower = Follower.of_one_type(sandbox, prometheus, twin)
        follower.begin(load={"expectedQPS": BUSY}, budget={"hourly": f"{12 * PRICE}"}, scaling=STAYS)
        sandbox.ready("svc")
        follower.play([(0, LOAD)])
        follower.becomes("MetricsAvailable", "True", limits.REACTION)
        prometheus.freeze()
        follower.becomes("MetricsAvailable", "False", limits.REACTION)
        follower.becomes("ScalingActive", "False", limits.REACTION)
        mark, budget = follower.mark(), AFFORDED * PRICE + 0.1
        sandbox.edit("svc", {"spec": {"budget": {"hourly": f"{budget}"}}})

        def said() -> bool | Unmet:
            found = {one["type"]: one for one in follower.status()["conditions"]}
            within, feasible = found["WithinBudget"], found["Feasible"]
            costs = f"what runs costs {AFFORDED * PRICE:.3f} $/h, the budget is {budget:.3f} $/h"
            right = (within["status"], within["message"]) == ("True", costs)
            return (right and feasible["status"] == "False" and f"{budget:g} $/h" in feasible["message"]) or Unmet(
                found
            )

        wait_until(said, limits.REACTION, "both conditions to tell the cut")
        assert follower.condition("MetricsAvailable") == "False"
        written = follower.totals_since(mark)
        assert written == sorted(written, reverse=True), "fewer, and never more"
        assert written[-1] == follower.instances() == AFFORDED
        prometheus.thaw()
        follower.becomes("MetricsAvailable", "True", limits.REACTION)
        assert follower.instances() == AFFORDED, "the load asks for more, and the budget allows none"
        assert "BudgetCut" in follower.replayed(tmp_path)
