"""Promise: when the leading scheduler is killed, the other places pods; its Lease bounds when, and a test prints it."""

from __future__ import annotations

import time
from typing import Final

import pytest

from harness import limits
from harness.cluster import Cluster
from harness.sandbox import Sandbox
from harness.waiting import Unmet, wait_until
from hetserve.api.names import SYSTEM_NAMESPACE

LEASE: Final = "hetserve-scheduler"


def holder(cluster: Cluster) -> str:
    """Identity of the scheduler that leads; empty: none."""
    lease = cluster.kube.find("leases", LEASE, SYSTEM_NAMESPACE)
    return str((lease or {"spec": {}})["spec"].get("holderIdentity") or "")


@pytest.mark.deep
@pytest.mark.timeout(limits.TEST)
def test_the_other_scheduler_places_pods_after_the_leader_is_killed(own_cluster: Cluster, namespace: str) -> None:
    own_cluster.install_hetserve({"scheduler": {"replicas": 2, "leaderElection": {"enabled": True}}})
    wait_until(lambda: holder(own_cluster) or Unmet("nobody"), limits.REACTION, "a scheduler that leads")
    first = holder(own_cluster)
    own_cluster.start_component("scheduler-standby")
    sandbox = Sandbox(own_cluster, namespace)
    sandbox.nodes("big", count=2, gpus=4)
    sandbox.deployment("before", "big", replicas=2, mib=2048, model=None, gated=False)
    sandbox.wait_for_bound(2, "app=before")
    assert holder(own_cluster) == first, "the second one waits"

    own_cluster.kill_component("scheduler")
    ended = time.monotonic()
    sandbox.deployment("after", "big", replicas=1, mib=2048, model=None, gated=False)
    sandbox.wait_for_bound(1, "app=after", timeout=limits.ROLLOUT)
    print(f"from a killed scheduler to the next bound pod: {time.monotonic() - ended:.1f} s")

    second = holder(own_cluster)
    assert second not in ("", first)
    own_cluster.start_component("scheduler")
    sandbox.deployment("later", "big", replicas=2, mib=2048, model=None, gated=False)
    sandbox.wait_for_bound(2, "app=later")
    assert holder(own_cluster) == second, "the one that is started anew waits"
