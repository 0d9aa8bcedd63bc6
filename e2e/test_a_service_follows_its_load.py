"""Promise: a service follows the load that Prometheus measures, up and down, and can tell why.

When and how far: tests/unit/operator/test_operator_scales_by_prometheus.py, in virtual time.
"""

from __future__ import annotations

from pathlib import Path

from harness import limits
from harness.cluster import Cluster
from harness.follower import BUSY, LITTLE, Follower
from harness.prometheus import Prometheus
from harness.sandbox import Sandbox
from harness.twin import Twin


def test_a_load_that_rises_brings_instances_and_one_that_falls_gives_them_back(
    cluster: Cluster, prometheus: Prometheus, twin: Twin, namespace: str, tmp_path: Path
) -> None:
    with Sandbox.cleared(cluster, namespace) as sandbox:
        follower = Follower.of_one_type(sandbox, prometheus, twin)
        follower.begin()
        sandbox.ready("svc")
        few = follower.instances()
        follower.play([(0, BUSY)])
        assert follower.decides("LoadAboveCapacity", limits.ROLLOUT)["action"] == "ScaleUp"
        follower.serves(lambda count: count > few, "more instances for twice the load")
        assert "mix" not in follower.status()["plan"], "the sizes are as declared"

        many = follower.instances()
        follower.play([(0, LITTLE)])
        assert follower.decides("LoadFitsOnLess", limits.ROLLOUT)["action"] == "ScaleDown"
        follower.serves(lambda count: count < many, "fewer instances for a fifth of it")
        assert {"LoadAboveCapacity", "LoadFitsOnLess"} <= set(follower.replayed(tmp_path))
