"""Promise: a service is planned for the batch sizes that Prometheus measures, not for those that it declares."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness import limits
from harness.cluster import Cluster
from harness.follower import Follower, least
from harness.prometheus import Prometheus
from harness.sandbox import Sandbox
from harness.twin import Twin
from harness.waiting import Unmet, wait_until

LOAD = 20.0
"""Queries/s."""
SMALL, LARGE = 1000 / 50, 1000 / 75
"""Queries/s of an instance: of one item each, and of 51."""
PROFILE = {"spec.latency": {"linear": {"intercept": "49.5ms", "slope": "0.5ms"}}}
SLO = {"latency": "1500ms", "percentile": "99"}
"""So loose that none is late before the sizes are known: a missed SLO would bring the instances, too."""
MEASURED = 150
"""Seconds: sizes are asked for once a minute, and the first answer may be of too few queries."""


@pytest.mark.timeout(limits.LONG_TEST)
def test_larger_queries_than_are_declared_bring_more_instances_at_the_same_load(
    cluster: Cluster, prometheus: Prometheus, twin: Twin, namespace: str, tmp_path: Path
) -> None:
    with Sandbox.cleared(cluster, namespace) as sandbox:
        follower = Follower.of_one_type(sandbox, prometheus, twin)
        sandbox.profile("m", *follower.kinds, overrides=PROFILE)
        follower.begin(load={"expectedQPS": LOAD}, slo=SLO)
        sandbox.ready("svc")
        assert follower.instances() == least(LOAD, SMALL)
        assert "mix" not in follower.status()["plan"]

        follower.play([(0, LOAD)], batches="normal:51,1")

        def counted() -> bool | Unmet:
            return bool(follower.status()["plan"].get("mix")) or Unmet(follower.status()["plan"])

        wait_until(counted, MEASURED, "a plan for the sizes as measured")
        follower.reaches(least(LOAD, LARGE), least(LOAD, LARGE) + 2, limits.REACTION, "instances for larger queries")
        plan = follower.status()["plan"]
        assert plan["mixSince"]
        assert {one["batch"] for one in plan["mix"]} <= set(range(44, 65)), "of 51 items, with a deviation of one"
        assert "ScaleUp" in {entry[0] for entry in follower.told()}
        assert "LoadAboveCapacity" in follower.replayed(tmp_path)
