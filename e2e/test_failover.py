"""Promise: when the leading extender ends, the other places pods, and no GPU is given twice.

How soon is measured by `make bench-placement`.
"""

from __future__ import annotations

from typing import Any, Final

import pytest

from harness import limits
from harness.cluster import Cluster
from harness.failover import ExtenderPair
from harness.sandbox import Sandbox
from hetserve.api.names import LABEL_FENCE, RESOURCE_GPU_MEMORY, SCHEDULER_NAME

FEW, MANY = 60, 1000
"""Pods that are bound before."""
ON_THE_WAY: Final = 100
ANNOTATIONS_AT_MOST: Final = 256 << 10


def two_extenders(cluster: Cluster, namespace: str, bound: int) -> ExtenderPair:
    """On 20 nodes of 8 GPUs with so many pods."""
    cluster.install_hetserve()
    cluster.start_component("extender-standby")
    sandbox = Sandbox(cluster, namespace)
    sandbox.nodes("big", count=20, gpus=8)
    sandbox.deployment("many", "big", replicas=bound, mib=2048, model=None, gated=False)
    sandbox.wait_for_bound(bound, "app=many", timeout=limits.CROWD)
    for port in (cluster.ports.extender_probe, cluster.ports.standby_probe):
        assert cluster.probe(port, "/readyz").status_code == 200, "both are ready, one leads"
    return ExtenderPair(cluster, sandbox)


@pytest.mark.timeout(limits.LONG_TEST)
def test_the_other_extender_follows_a_stopped_and_a_killed_leader(own_cluster: Cluster, namespace: str) -> None:
    pair = two_extenders(own_cluster, namespace, FEW)
    pair.fail_over("stopped", own_cluster.stop_component)
    own_cluster.kube.create(_full_of_annotations(namespace))
    pair.sandbox.wait_for_refusal("MiB free")

    pair.fail_over("killed while pods are on the way", own_cluster.kill_component, on_the_way=ON_THE_WAY)

    pod = own_cluster.get("pods", "full", namespace)
    assert pod["metadata"]["labels"][LABEL_FENCE], (
        "it could still have been bound by the leader that was killed, and unfenced any tenant's pod would make every "
        "take-over after a crash wait 75 s"
    )


@pytest.mark.deep
@pytest.mark.timeout(limits.LONG_TEST)
def test_the_other_extender_of_many_bound_pods_follows_every_end_of_the_leader(
    own_cluster: Cluster, namespace: str
) -> None:
    pair = two_extenders(own_cluster, namespace, MANY)
    pair.fail_over("killed", own_cluster.kill_component)
    pair.fail_over("stopped", own_cluster.stop_component)
    pair.fail_over("killed while pods are on the way", own_cluster.kill_component, on_the_way=ON_THE_WAY)


def _full_of_annotations(namespace: str) -> dict[str, Any]:
    """A pod that fits no GPU, so it never leaves, and takes not one annotation more."""
    key = "example.com/note"
    annotations = {key: "x" * (ANNOTATIONS_AT_MOST - len(key))}
    container = {"name": "c", "image": "none", "resources": {"limits": {RESOURCE_GPU_MEMORY: "999999"}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "full", "namespace": namespace, "annotations": annotations},
        "spec": {"schedulerName": SCHEDULER_NAME, "containers": [container]},
    }
