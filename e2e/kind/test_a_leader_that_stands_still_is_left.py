"""Promise: the pod that leads stands still, as on a lost node: the other one places within seconds."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import pytest

from harness import limits
from harness.arrivals import AFTER, BEFORE, arriving
from harness.kind import KindCluster
from harness.kube import Manifest
from harness.nodes import INSTANCE_TYPE_LABEL, Gpus, NodeGroup
from harness.waiting import Unmet, wait_until
from hetserve.api.names import SYSTEM_NAMESPACE

GOAL: Final = 15.0
"""Seconds without a binding while pods arrive: 6 for the Lease, and as much for a machine that does much else."""
NODES: Final = NodeGroup("still", "still", 2, cpu="64", memory="256Gi", gpus=Gpus("Tesla-T4", 15360, 8), pods=250)
WHERE: Final = {INSTANCE_TYPE_LABEL: "still"}


@pytest.fixture
def nodes(kind: KindCluster) -> Iterator[KindCluster]:
    kind.add_nodes(NODES)
    yield kind
    kind.remove_nodes(NODES)


def leader(kind: KindCluster, besides: str = "") -> Manifest:
    """The pod whose scheduler leads, once one other than `besides` does."""

    def leads() -> Manifest | Unmet:
        lease = kind.kube.find("leases", "hetserve-scheduler", SYSTEM_NAMESPACE) or {"spec": {}}
        held = str(lease["spec"].get("holderIdentity") or "")
        pods = [each for each in kind.pods(SYSTEM_NAMESPACE, "scheduler") if held.startswith(each["metadata"]["name"])]
        return next((each for each in pods if each["metadata"]["name"] != besides), None) or Unmet(held)

    return wait_until(leads, limits.ROLLOUT, "a scheduler that leads")


@contextmanager
def still(pod: Manifest) -> Iterator[None]:
    """The processes of a pod stand still during the block; the kernel goes on answering for their sockets."""
    _signal(pod, "STOP")
    try:
        yield
    finally:
        _signal(pod, "CONT")


def _signal(pod: Manifest, name: str) -> None:
    uid = pod["metadata"]["uid"]
    found = rf"grep -lE 'pod({uid}|{uid.replace('-', '_')})' /proc/[0-9]*/cgroup 2>/dev/null | cut -d/ -f3"
    script = f'ids=$({found}); [ -n "$ids" ] || exit 0; kill -{name} $ids'
    subprocess.run(["docker", "exec", pod["spec"]["nodeName"], "sh", "-c", script], check=True)


def test_a_leader_that_stands_still_is_left_while_pods_arrive(nodes: KindCluster, tenant: str) -> None:
    first = leader(nodes)
    with arriving(nodes.kubeconfig, tenant, per_second=5.0, mib=256, node_labels=WHERE) as arrivals:
        arrivals.go_on(BEFORE)
        began = time.monotonic()
        with still(first):
            second = leader(nodes, besides=first["metadata"]["name"])
            arrivals.go_on(AFTER)
            gap = arrivals.gap(began)
        print(f"without a binding at most: {gap:.1f} s; {second['metadata']['name']} leads")
        arrivals.go_on(AFTER)
        arrivals.check()
    assert gap < GOAL
