"""Promise: a node is drained while pods arrive: what ran on it gets a GPU elsewhere, and hetserve itself moves."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, Final

import pytest
from images import build

from harness import limits
from harness.arrivals import AFTER, BEFORE, arriving
from harness.invariants import broken, capacities
from harness.kind import KindCluster
from harness.nodes import INSTANCE_TYPE_LABEL, Gpus, NodeGroup
from harness.waiting import Unmet, wait_until
from hetserve.api.names import RESOURCE_GPU_MEMORY, SCHEDULER_NAME, SYSTEM_NAMESPACE

GOAL: Final = 10.0
"""Seconds without a binding while pods arrive."""
NODES: Final = NodeGroup("drain", "drain", 3, cpu="64", memory="256Gi", gpus=Gpus("Tesla-T4", 15360, 8), pods=250)
WHERE: Final = {INSTANCE_TYPE_LABEL: "drain"}
REPLICAS: Final = 3


@pytest.fixture
def drained(kind: KindCluster, gpu_workers: list[str]) -> Iterator[str]:
    """The real node on which the leading pair is; usable again after the test."""
    kind.add_nodes(NODES)
    lease = kind.kube.get("leases", "hetserve-scheduler", SYSTEM_NAMESPACE)["spec"]["holderIdentity"]
    pods = kind.pods(SYSTEM_NAMESPACE, "scheduler")
    (node,) = [each["spec"]["nodeName"] for each in pods if lease.startswith(each["metadata"]["name"])]
    yield node
    kind.kubectl("uncordon", node)
    kind.remove_nodes(NODES)


def deployment(namespace: str) -> dict[str, Any]:
    """Real containers, each with 6,100 MiB of a real node's GPU."""
    container = {
        "name": "model",
        "image": build.tag_of("extender"),
        "imagePullPolicy": "Never",
        "command": ["sleep", "600"],
        "resources": {"limits": {RESOURCE_GPU_MEMORY: "6100"}},
    }
    spec = {
        "schedulerName": SCHEDULER_NAME,
        "terminationGracePeriodSeconds": 0,
        "nodeSelector": {"hetserve.io/real-node": "true"},
        "containers": [container],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "model", "namespace": namespace},
        "spec": {
            "replicas": REPLICAS,
            "selector": {"matchLabels": {"app": "real"}},
            "template": {"metadata": {"labels": {"app": "real"}}, "spec": spec},
        },
    }


def running(kind: KindCluster, namespace: str) -> list[dict[str, Any]] | Unmet:
    """The Deployment's pods, once all of them run."""
    pods = [
        each
        for each in kind.kube.list("pods", namespace, labels="app=real")
        if each["status"].get("phase") == "Running" and not each["metadata"].get("deletionTimestamp")
    ]
    return pods if len(pods) == REPLICAS else Unmet([each["metadata"]["name"] for each in pods])


def test_a_drained_nodes_pods_and_components_come_up_elsewhere(kind: KindCluster, drained: str, tenant: str) -> None:
    kind.kube.apply_all([deployment(tenant)])
    wait_until(lambda: running(kind, tenant), limits.ROLLOUT, "the real pods to run")

    # On nodes of their own: they should not fill the other real one.
    with arriving(kind.kubeconfig, tenant, per_second=5.0, mib=1024, node_labels=WHERE) as arrivals:
        arrivals.go_on(BEFORE)
        began = time.monotonic()
        kind.kubectl("drain", drained, "--ignore-daemonsets", "--delete-emptydir-data", "--force", "--timeout=180s")
        took = time.monotonic() - began
        moved = wait_until(lambda: running(kind, tenant), limits.ROLLOUT, "the real pods to run elsewhere")
        arrivals.go_on(AFTER)
        gap = arrivals.gap(began)
        arrivals.check()
    print(f"drained in {took:.1f} s, no binding for {gap:.1f} s at most")

    assert {each["spec"]["nodeName"] for each in moved}.isdisjoint({drained})
    assert broken(kind.pods(tenant), capacities(kind.kube.list("nodes", labels="nvidia.com/gpu.count"))) == []
    here = [each for each in kind.pods(SYSTEM_NAMESPACE) if each["spec"].get("nodeName") == drained]
    assert here == [], "hetserve's own pods have left"
    assert gap < GOAL
