"""Promise: where queries take longer than the profiles say, those that are late bring instances.

Until the SLO holds, and none where the profiles are right: tests/unit/operator/test_operator_scales_by_prometheus.py.
"""

from __future__ import annotations

from pathlib import Path

from harness import limits
from harness.cluster import Cluster
from harness.follower import Follower
from harness.prometheus import Prometheus
from harness.sandbox import Sandbox
from harness.twin import Twin

LOAD = 18.0
"""Queries/s: less than the instances are planned for, so that chance does not make it too much."""
FACTOR = 5
"""Times as long as the profiles say: each query is late, and none of them by chance."""


def test_late_queries_in_the_histograms_of_prometheus_bring_instances(
    cluster: Cluster, prometheus: Prometheus, twin: Twin, namespace: str, tmp_path: Path
) -> None:
    with Sandbox.cleared(cluster, namespace) as sandbox:
        follower = Follower.of_one_type(sandbox, prometheus, twin)
        follower.begin()
        sandbox.ready("svc")
        mark = follower.mark()
        follower.play([(0, LOAD)], latencyFactor=f"{FACTOR}")
        told = follower.decides("SLOMissed", limits.ROLLOUT)
        assert told["action"] == "ScaleUp"
        assert "met the SLO" in told["message"]
        follower.serves(lambda count: count > follower.at(mark), "more instances")
        written = follower.totals_since(mark)
        assert written == sorted(written), "more, and never fewer"
        assert "SLOMissed" in follower.replayed(tmp_path)
