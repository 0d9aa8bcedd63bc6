"""Promise: the API server's pod restarts: components live on, and whatever pod comes, whenever, gets its GPU."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from typing import Final

import pytest

from harness import limits
from harness.arrivals import create_at_last, pod
from harness.invariants import broken, capacities, shares
from harness.kind import NAME, KindCluster
from harness.nodes import INSTANCE_TYPE_LABEL, Gpus, NodeGroup
from harness.waiting import Unmet, wait_until
from hetserve.api.names import QUEUE_GATE, SYSTEM_NAMESPACE

NODE: Final = f"{NAME}-control-plane"
NODES: Final = NodeGroup("restart", "restart", 2, cpu="64", memory="256Gi", gpus=Gpus("Tesla-T4", 15360, 8))
WHERE: Final = {INSTANCE_TYPE_LABEL: "restart"}
EACH: Final = 20


@pytest.fixture
def nodes(kind: KindCluster) -> Iterator[NodeGroup]:
    kind.add_nodes(NODES)
    yield NODES
    kind.remove_nodes(NODES)


def bring(kind: KindCluster, namespace: str, when: str) -> None:
    for number in range(EACH):
        gates = (QUEUE_GATE,) if number % 2 else ()
        create_at_last(kind.kube, pod(f"{when}-{number}", namespace, 1024, WHERE, *gates))


def restarts(kind: KindCluster) -> int:
    status = kind.kube.get("pods", f"kube-apiserver-{NODE}", "kube-system")["status"]
    return int(status["containerStatuses"][0]["restartCount"])


def wait_for_bound(kind: KindCluster, namespace: str, count: int) -> None:
    def bound() -> bool | Unmet:
        held = [each for each in kind.pods(namespace) if each["spec"].get("nodeName")]
        return len(held) == count or Unmet(len(held))

    wait_until(bound, limits.CROWD, f"{count} pods to be bound")


def test_pods_are_placed_before_while_and_after_the_api_server_restarts(
    kind: KindCluster, nodes: NodeGroup, tenant: str
) -> None:
    bring(kind, tenant, "before")
    wait_for_bound(kind, tenant, EACH)
    held, times = set(shares(kind.pods(tenant))), restarts(kind)

    # The processes of this node only: it is a container of its own. Its kubelet starts the pod's container again. As in
    # a crash: asked to end, it would let its requests end for a minute, and so do for most of this scenario.
    subprocess.run(["docker", "exec", NODE, "pkill", "--signal", "KILL", "--exact", "kube-apiserver"], check=True)
    began = time.monotonic()
    bring(kind, tenant, "while")
    wait_for_bound(kind, tenant, 2 * EACH)
    print(f"pods created while the API server restarts are bound {time.monotonic() - began:.1f} s after its end")
    bring(kind, tenant, "after")
    wait_for_bound(kind, tenant, 3 * EACH)

    wait_until(
        lambda: restarts(kind) == times + 1 or Unmet(restarts(kind)), limits.ROLLOUT, "the kubelet to count the restart"
    )
    pods = kind.pods(tenant)
    assert held <= set(shares(pods)), "who held a GPU holds it still"
    assert broken(pods, capacities(kind.kube.list("nodes", labels="nvidia.com/gpu.count"))) == []
    statuses = [status for each in kind.pods(SYSTEM_NAMESPACE) for status in each["status"]["containerStatuses"]]
    for component in ("operator", "extender"):
        ended = {status["restartCount"] for status in statuses if status["name"] == component}
        assert ended == {0}, f"no {component} ended for it"
