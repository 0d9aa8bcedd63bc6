"""Promise: when the leading pair of scheduler and extender ends, the other places pods, and no GPU is given twice.

How soon is measured by `make bench-placement`.
"""

from __future__ import annotations

from typing import Any, Final

import pytest

from harness import limits
from harness.cluster import Cluster
from harness.failover import TwoPairs
from hetserve.api.names import LABEL_FENCE, RESOURCE_GPU_MEMORY, SCHEDULER_NAME

FEW, MANY = 60, 1000
"""Pods that are bound before."""
ON_THE_WAY: Final = 100
ANNOTATIONS_AT_MOST: Final = 256 << 10


@pytest.mark.timeout(limits.LONG_TEST)
def test_the_other_pair_follows_a_stopped_and_a_killed_leader(own_cluster: Cluster, namespace: str) -> None:
    pairs = TwoPairs.start(own_cluster, namespace, FEW)
    pairs.fail_over("stopped", pairs.stop)
    own_cluster.kube.create(_full_of_annotations(namespace))
    pairs.sandbox.wait_for_refusal("MiB free")

    pairs.fail_over("killed while pods are on the way", pairs.kill, on_the_way=ON_THE_WAY)

    pod = own_cluster.get("pods", "full", namespace)
    assert pod["metadata"]["labels"][LABEL_FENCE], (
        "it could still have been bound by the leader that was killed, and unfenced any tenant's pod would make every "
        "take-over after a crash wait 75 s"
    )


@pytest.mark.deep
@pytest.mark.timeout(limits.LONG_TEST)
def test_a_part_of_the_leader_that_ends_or_hangs_costs_seconds(own_cluster: Cluster, namespace: str) -> None:
    """The containers of a pod end alone, too."""
    pairs = TwoPairs.start(own_cluster, namespace, FEW)
    pairs.fail_over("extender killed", pairs.kill_extender, moves=False)
    pairs.fail_over("extender frozen", pairs.freeze_extender)
    pairs.fail_over("scheduler killed", lambda pair: own_cluster.kill_component(pair.scheduler))
    pairs.fail_over("scheduler frozen", lambda pair: own_cluster.freeze_component(pair.scheduler))


@pytest.mark.deep
@pytest.mark.timeout(limits.LONG_TEST)
def test_the_other_pair_of_many_bound_pods_follows_every_end_of_the_leader(
    own_cluster: Cluster, namespace: str
) -> None:
    pairs = TwoPairs.start(own_cluster, namespace, MANY)
    pairs.fail_over("killed", pairs.kill)
    pairs.fail_over("stopped", pairs.stop)
    pairs.fail_over("frozen", pairs.freeze)
    pairs.fail_over("killed while pods are on the way", pairs.kill, on_the_way=ON_THE_WAY)


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
