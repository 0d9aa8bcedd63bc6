"""Promise: while a pod has GPUs of a node through NVIDIA's device plugin, no pod of ours comes to that node."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from harness import limits
from harness.cluster import Cluster
from harness.nodes import INSTANCE_TYPE_LABEL
from harness.sandbox import Sandbox
from harness.waiting import Unmet, wait_until
from hetserve.api.names import RESOURCE_NVIDIA_GPU

WORDS = (
    f"pods on the node hold GPUs through {RESOURCE_NVIDIA_GPU}, and nobody knows which; it takes new pods once they end"
)


def advertise(cluster: Cluster, node: str, gpus: int) -> None:
    """As the device plugin does."""
    amounts = {RESOURCE_NVIDIA_GPU: str(gpus)}
    status = {"status": {"capacity": amounts, "allocatable": amounts}}
    cluster.kube.patch("nodes", node, status, subresource="status")


@contextmanager
def cuda_pod(sandbox: Sandbox, nodes: str) -> Iterator[None]:
    """A pod that the stock scheduler places; after the block it ends."""
    pod: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "cuda", "namespace": sandbox.namespace, "labels": {"app": "cuda"}},
        "spec": {
            "nodeSelector": {INSTANCE_TYPE_LABEL: sandbox.scoped(nodes)},
            "terminationGracePeriodSeconds": 1,
            "containers": [{"name": "cuda", "image": "none", "resources": {"limits": {RESOURCE_NVIDIA_GPU: "1"}}}],
        },
    }
    sandbox.kube.create(pod)
    try:
        yield
    finally:
        sandbox.kube.delete("pods", "cuda", sandbox.namespace)


def open_gpus(cluster: Cluster, node: str) -> list[bool]:
    return [gpu["open"] for gpu in cluster.ledger()["gpus"] if gpu["node"] == node]


def told_of(cluster: Cluster, namespace: str) -> list[str]:
    """The extender's problems with the pod."""
    return [problem for problem in cluster.ledger()["problems"] if f"{namespace}/cuda " in problem]


def test_the_node_takes_our_pods_again_once_the_other_is_gone(cluster: Cluster, namespace: str) -> None:
    with Sandbox.cleared(cluster, namespace) as sandbox:
        (node,) = sandbox.nodes("mixed", count=1, gpus=2).node_names()
        advertise(cluster, node, 2)
        sandbox.deployment("early", "mixed", replicas=1, mib=2048, model="early")
        sandbox.wait_for_bound(1, "app=early")

        with cuda_pod(sandbox, "mixed"):
            sandbox.wait_for_bound(1, "app=cuda")
            wait_until(
                lambda: told_of(cluster, namespace) or Unmet("no word"), limits.REACTION, "the extender to hear of it"
            )
            assert told_of(cluster, namespace) == [
                f"pod {namespace}/cuda holds GPUs of node {node} through {RESOURCE_NVIDIA_GPU}, and nobody knows which:"
                " the node takes no new pods until it ends"
            ]
            assert open_gpus(cluster, node) == [False, False]

            sandbox.deployment("late", "mixed", replicas=1, mib=2048, model="late")
            assert WORDS in sandbox.wait_for_refusal(WORDS)
            assert sandbox.bound("app=late") == []
            assert len(sandbox.bound("app=early")) == 1, "what was there before stays"

        sandbox.wait_for_bound(1, "app=late")
        assert open_gpus(cluster, node) == [True, True]
