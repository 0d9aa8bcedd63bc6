"""Promise: the pods of leaders are killed while pods arrive: another leads, none is lost, no GPU is over-committed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final

import pytest

from harness import limits
from harness.arrivals import AFTER, BEFORE, arriving
from harness.kind import KindCluster
from harness.nodes import INSTANCE_TYPE_LABEL, Gpus, NodeGroup
from harness.waiting import Unmet, wait_until
from hetserve.api.names import SYSTEM_NAMESPACE

GOAL: Final = 10.0
"""Seconds without a binding while pods arrive."""
NODES: Final = NodeGroup("storm", "storm", 4, cpu="64", memory="256Gi", gpus=Gpus("Tesla-T4", 15360, 8), pods=250)
WHERE: Final = {INSTANCE_TYPE_LABEL: "storm"}
COMPONENTS: Final = ("scheduler", "operator")
"""The extender is in the scheduler's pod."""


@pytest.fixture
def storm(kind: KindCluster) -> Iterator[KindCluster]:
    kind.add_nodes(NODES)
    yield kind
    kind.remove_nodes(NODES)


def all_are_ready(kind: KindCluster, component: str) -> None:
    """Waits for all replicas of a component."""

    def ready() -> bool | Unmet:
        deployment = kind.kube.get("deployments", f"hetserve-{component}", SYSTEM_NAMESPACE)
        status = deployment["status"]
        return status.get("readyReplicas") == deployment["spec"]["replicas"] or Unmet(status)

    wait_until(ready, limits.ROLLOUT, f"every {component} to be ready")


def leader(kind: KindCluster, component: str, besides: str = "") -> str:
    """Name of the pod that leads, once one other than `besides` does."""

    def holder() -> str | Unmet:
        lease = kind.kube.find("leases", f"hetserve-{component}", SYSTEM_NAMESPACE)
        held = str((lease or {"spec": {}})["spec"].get("holderIdentity") or "")
        alive = [each["metadata"]["name"] for each in kind.pods(SYSTEM_NAMESPACE, component)]
        return next((name for name in alive if held.startswith(name) and name != besides), "") or Unmet(held)

    return str(wait_until(holder, limits.REACTION, f"a {component} that leads"))


def test_every_leader_may_be_killed_while_pods_arrive(storm: KindCluster, tenant: str) -> None:
    gaps: dict[str, float] = {}
    with arriving(storm.kubeconfig, tenant, per_second=5.0, mib=1024, node_labels=WHERE) as arrivals:
        arrivals.go_on(BEFORE)
        began = time.monotonic()
        for component in COMPONENTS:
            all_are_ready(storm, component)
            first = leader(storm, component)
            arrivals.go_on(BEFORE)
            killed = time.monotonic()
            storm.kube.delete("pods", first, SYSTEM_NAMESPACE, grace=0)
            leader(storm, component, besides=first)
            arrivals.go_on(AFTER)
            gaps[component] = arrivals.gap(killed)
        longest = arrivals.gap(began)
        arrivals.check()
        print(f"{len(arrivals.created)} pods arrived; the longest waited {arrivals.longest_wait():.1f} s")
    print("without a binding at most: " + ", ".join(f"{name} {gap:.1f} s" for name, gap in gaps.items()))
    for component in COMPONENTS:
        all_are_ready(storm, component)
    assert longest < GOAL
