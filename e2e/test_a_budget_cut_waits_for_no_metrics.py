"""Promise: while Prometheus answers nothing, nothing shrinks for want of load, and a lower budget is obeyed at once."""

from __future__ import annotations

from pathlib import Path

from harness import limits
from harness.cluster import Cluster
from harness.follower import BUSY, LITTLE, PRICE, Follower
from harness.prometheus import Prometheus
from harness.sandbox import Sandbox
from harness.twin import Twin
from harness.waiting import Unmet, wait_until

AFFORDED = 3


def test_while_prometheus_hangs_what_runs_stays_but_for_a_cut_and_both_numbers_are_told(
    cluster: Cluster, prometheus: Prometheus, twin: Twin, namespace: str, tmp_path: Path
) -> None:
    with Sandbox.cleared(cluster, namespace) as sandbox:
        follower = Follower.of_one_type(sandbox, prometheus, twin)
        follower.begin(load={"expectedQPS": BUSY}, budget={"hourly": f"{12 * PRICE}"})
        sandbox.ready("svc")
        follower.play([(0, BUSY)])
        follower.becomes("MetricsAvailable", "True", limits.REACTION)
        prometheus.freeze()
        follower.becomes("MetricsAvailable", "False", limits.REACTION)
        follower.becomes("ScalingActive", "False", limits.REACTION)
        before, told, mark = follower.instances(), follower.told(), follower.mark()
        follower.play([(0, LITTLE)])

        budget = AFFORDED * PRICE + 0.1
        assert (follower.instances(), follower.told()) == (before, told), "the load that fell is not seen"
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
        assert follower.totals_since(mark) == sorted(follower.totals_since(mark), reverse=True)
        assert follower.instances() == AFFORDED
        prometheus.thaw()
        follower.becomes("MetricsAvailable", "True", limits.REACTION)
        assert max(follower.totals_since(mark)[1:]) < before, "the budget allows none of what was"
        assert "BudgetCut" in follower.replayed(tmp_path)
