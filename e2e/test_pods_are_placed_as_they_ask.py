"""Promise: pods of any kind get the GPUs they ask for, as the how-to says; an inventory counts from when it changes."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest
import yaml

from harness import limits
from harness.cluster import Cluster
from harness.components import ROOT
from harness.kube import Manifest
from harness.nodes import HETSEV, NodeGroup
from harness.sandbox import Sandbox
from harness.waiting import wait_until
from hetserve.api import names
from hetserve.placement.check import violations

T4 = "Tesla-T4"
V100 = "Tesla-V100-PCIE-32GB"
FEW, MANY = 3, 12
"""Tries of what depends on who is first."""


def examples() -> list[Manifest]:
    """The manifests of the how-to, in its order."""
    text = (ROOT / "docs" / "how-to-place-pods.md").read_text()
    blocks = re.findall(r"^```yaml\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    return [manifest for block in blocks for manifest in yaml.safe_load_all(block)]


def held(pod: Manifest) -> tuple[list[str], list[int]]:
    """(GPU ids, MiB on each) as the binding wrote them."""
    annotations = pod["metadata"]["annotations"]
    mib = [int(text) for text in annotations[names.ANNOTATION_GPU_MEMORY].split(",")]
    return annotations[names.ANNOTATION_GPU].split(","), mib


def product_of(cluster: Cluster, pod: Manifest) -> str:
    labels: dict[str, str] = cluster.kube.get("nodes", pod["spec"]["nodeName"])["metadata"]["labels"]
    return labels[names.GFD_PRODUCT]


def test_the_examples_of_the_how_to_are_placed_as_it_says(cluster: Cluster, namespace: str) -> None:
    sandbox = Sandbox(cluster, namespace)
    manifests = examples()
    assert Counter(m["kind"] for m in manifests) == {"Deployment": 1, "Job": 1, "StatefulSet": 1, "Pod": 2}
    cluster.apply(manifests, namespace)
    pods = {pod["metadata"]["name"].rsplit("-", 1)[0]: pod for pod in sandbox.wait_for_bound(7)}

    embedders = sandbox.bound("app=embedder")
    assert [held(pod)[1] for pod in embedders] == [[4096], [4096]]
    assert len({(pod["spec"]["nodeName"], *held(pod)[0]) for pod in embedders}) == 2, "one model on one GPU"
    assert held(pods["reindex"]) == (["0", "1"], [8192, 8192])
    assert held(pods["classifier"])[1] == [4096]
    trainers = sandbox.bound("app=trainer")
    assert [held(pod)[1] for pod in trainers] == [[32768], [32768]]
    assert {product_of(cluster, pod) for pod in trainers} == {V100}
    assert not violations(cluster.kube.list("pods"), cluster.kube.list("nodes"))


def gpu(uuid: str, product: str, mib: int, *, healthy: bool = True) -> dict[str, Any]:
    return {"uuid": uuid, "product": product, "memoryMiB": mib, "healthy": healthy}


def annotate(cluster: Cluster, node: str, *gpus: dict[str, Any]) -> None:
    cluster.kube.patch("nodes", node, {"metadata": {"annotations": {names.ANNOTATION_NODE_GPUS: json.dumps(gpus)}}})


@contextmanager
def one_node(cluster: Cluster, sandbox: Sandbox, name: str) -> Iterator[str]:
    """A node for the block; its pods are deleted first."""
    group = NodeGroup(name, name, 1, cpu="16", memory="64Gi")
    cluster.add_nodes(group)
    try:
        yield group.node_names()[0]
    finally:
        cluster.kube.delete_all("pods", sandbox.namespace)
        sandbox.wait_for_pods_gone()
        cluster.remove_nodes(group)


def pod_of(name: str, node: str, mib: int, **annotations: str) -> Manifest:
    """A pod for one node only."""
    wishes = {f"{names.GROUP}/{key.replace('_', '-')}": value for key, value in annotations.items()}
    limits = {names.RESOURCE_GPU_MEMORY: str(mib)}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": wishes},
        "spec": {
            "schedulerName": names.SCHEDULER_NAME,
            "nodeSelector": {"kubernetes.io/hostname": node},
            "terminationGracePeriodSeconds": 1,
            "containers": [{"name": "model", "image": "none", "resources": {"limits": limits}}],
        },
    }


def test_a_node_with_mixed_gpus_gives_each_pod_the_gpu_it_accepts(cluster: Cluster, namespace: str) -> None:
    sandbox = Sandbox(cluster, namespace)
    with one_node(cluster, sandbox, "mixed") as node:
        annotate(cluster, node, gpu("GPU-a", T4, 15360), gpu("GPU-b", V100, 32768), gpu("GPU-c", V100, 16384))
        wishes: dict[str, dict[str, str]] = {
            "small": {"gpu_product": f"{T4},A100"},
            "not-small": {"gpu_product_exclude": T4, "placement_policy": "BestFit"},
            "that-one": {"gpu_uuid": "GPU-c", "gpu_product": V100},
            "any": {},
        }
        cluster.apply([pod_of(name, node, 4096, **wish) for name, wish in wishes.items()], namespace)
        found = {pod["metadata"]["name"]: held(pod)[0] for pod in sandbox.wait_for_bound(4)}
        assert found.pop("any") in (["GPU-a"], ["GPU-b"], ["GPU-c"])
        assert found.pop("not-small") in (["GPU-b"], ["GPU-c"])
        assert found == {"small": ["GPU-a"], "that-one": ["GPU-c"]}
        cluster.apply(pod_of("elsewhere", node, 1, gpu_product="A100"), namespace)
        sandbox.wait_for_refusal("no GPU of product A100")
        cluster.apply(pod_of("wrong", node, 1, placement_policy="Random"), namespace)
        sandbox.wait_for_refusal(f"{names.ANNOTATION_PLACEMENT_POLICY}: 'Random' is not WorstFit or DominantWorstFit")


def test_a_gpu_that_turns_unhealthy_gets_no_new_pod_and_keeps_those_it_has(cluster: Cluster, namespace: str) -> None:
    sandbox = Sandbox(cluster, namespace)
    with one_node(cluster, sandbox, "ailing") as node:
        annotate(cluster, node, gpu("GPU-a", V100, 32768), gpu("GPU-b", V100, 16384))
        cluster.apply(pod_of("first", node, 4096), namespace)
        (first,) = sandbox.wait_for_bound(1)
        assert held(first)[0] == ["GPU-a"]

        annotate(cluster, node, gpu("GPU-a", V100, 32768, healthy=False), gpu("GPU-b", V100, 16384))
        cluster.apply(pod_of("second", node, 16000), namespace)
        sandbox.wait_for_bound(2)
        cluster.apply(pod_of("third", node, 16000), namespace)
        sandbox.wait_for_refusal("no GPU with 16000 MiB free; the most free on any eligible GPU is 384 MiB")
        assert held(cluster.get("pods", "second", namespace))[0] == ["GPU-b"]
        assert held(cluster.get("pods", "first", namespace))[0] == ["GPU-a"], "what runs is left alone"
        assert "GPU GPU-a of node ailing-1 is unhealthy and holds 1 pods" in cluster.ledger()["problems"]

        annotate(cluster, node, gpu("GPU-a", V100, 32768), gpu("GPU-b", V100, 16384))
        sandbox.wait_for_bound(3)
        assert held(cluster.get("pods", "third", namespace))[0] == ["GPU-a"]


@pytest.mark.parametrize("times", [FEW, pytest.param(MANY, marks=pytest.mark.deep)])
def test_no_pod_that_was_refused_a_moment_too_early_waits_for_minutes(
    cluster: Cluster, namespace: str, times: int
) -> None:
    """The scheduler tries a pod on the event that frees its GPU, often before our watch has shown it."""
    sandbox = Sandbox(cluster, namespace)
    with one_node(cluster, sandbox, "reviving") as node:
        for number in range(times):
            annotate(cluster, node, gpu("GPU-a", V100, 32768, healthy=False))
            name = f"p{number}"
            cluster.apply(pod_of(name, node, 1024), namespace)
            sandbox.wait_for_refusal("no healthy GPU on the node")
            wait_until(partial(cluster.events, namespace, name, "FailedScheduling"), limits.ANSWER, f"{name} refused")
            annotate(cluster, node, gpu("GPU-a", V100, 32768))
            sandbox.wait_for_bound(number + 1, timeout=limits.ANSWER)


@pytest.mark.parametrize("times", [FEW, pytest.param(MANY, marks=pytest.mark.deep)])
def test_refused_pods_of_many_sizes_get_a_gpu_that_comes_free_again_and_again(
    cluster: Cluster, namespace: str, times: int
) -> None:
    """The scheduler tries some of them while others are requeued."""
    sandbox = Sandbox(cluster, namespace)
    with one_node(cluster, sandbox, "contended") as node:
        annotate(cluster, node, gpu("GPU-a", V100, 32768))
        for number in range(times):
            holder, small = f"holder-{number}", [f"small-{number}-{size}" for size in range(12)]
            cluster.apply(pod_of(holder, node, 32768), namespace)
            sandbox.wait_for_bound(1)
            cluster.apply([pod_of(name, node, 1001 + size) for size, name in enumerate(small)], namespace)
            for name in small:
                wait_until(
                    partial(cluster.events, namespace, name, "FailedScheduling"), limits.REACTION, f"{name} refused"
                )
            cluster.kube.delete("pods", holder, namespace, grace=0)
            sandbox.wait_for_bound(12, timeout=limits.REACTION)
            cluster.kube.delete_all("pods", namespace)
            sandbox.wait_for_pods_gone()


def test_mode_score_lets_the_scheduler_choose_by_our_scores_and_over_commits_nothing(own_cluster: Cluster) -> None:
    own_cluster.add_nodes(HETSEV)
    own_cluster.install_hetserve({"extender": {"mode": "score", "policy": "BestFit"}})
    sandbox = Sandbox(own_cluster, "default")
    for number in range(8):  # one after another: scores ignore pods under way
        pod = pod_of(f"small-{number}", "", 4096)
        del pod["spec"]["nodeSelector"]
        own_cluster.apply(pod, "default")
        bound = sandbox.wait_for_bound(number + 1)
    assert {product_of(own_cluster, pod) for pod in bound} == {T4}, "best fit fills the small GPUs first"
    assert len({(pod["spec"]["nodeName"], *held(pod)[0]) for pod in bound}) == 3, "three pods of 4096 MiB fill a T4"

    # More pods than GPUs, without reservations: many binds come too late.
    large = [pod_of(f"large-{number}", "", 30000) for number in range(10)]
    for pod in large:
        del pod["spec"]["nodeSelector"]
    own_cluster.apply(large, "default")
    sandbox.wait_for_bound(16)
    sandbox.wait_for_refusal("no GPU with 30000 MiB free")
    assert not violations(own_cluster.kube.list("pods"), own_cluster.kube.list("nodes"))
