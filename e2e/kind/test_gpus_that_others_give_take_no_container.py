"""Promise: while NVIDIA's plugin or its DRA driver gives the GPUs of a real node, no container of ours comes to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Final

import pytest

from harness import limits
from harness.containers import HOST, container_pod, printed, wait_for_refusal, wait_for_running
from harness.kind import KindCluster
from harness.waiting import Unmet, wait_until
from hetserve.api.names import (
    DRA_DRIVER,
    GFD_REPLICAS,
    GFD_SHARING,
    RESOURCE_GPU_MEMORY,
    RESOURCE_NVIDIA_GPU,
    SYSTEM_NAMESPACE,
)

pytestmark = pytest.mark.beside

RUNTIME: Final = "hetserve-e2e"

Giver = Callable[[KindCluster, str, str], AbstractContextManager[None]]
"""Of a node's GPUs during the block; its arguments are cluster, node and namespace."""


SHARED: Final = "NVIDIA's device plugin gives each GPU to several pods"
CLAIMED: Final = f"DRA driver {DRA_DRIVER} offers the GPUs to ResourceClaims"


def wait_until_known(kind: KindCluster, node: str, words: str) -> None:
    """Waits until every extender says so of the node: what was written before a pod may come after it."""

    def said() -> bool | Unmet:
        names = [pod["metadata"]["name"] for pod in kind.pods(SYSTEM_NAMESPACE, "extender")]
        logs = {name: kind.kubectl("logs", "-n", SYSTEM_NAMESPACE, name).splitlines() for name in names}
        refused = f"node {node} takes no new pods: "
        silent = [name for name, log in logs.items() if not any(refused in one and words in one for one in log)]
        return not silent or Unmet(silent)

    wait_until(said, limits.REACTION, f"every extender to say {words!r}")


@contextmanager
def plugin(kind: KindCluster, node: str, namespace: str) -> Iterator[None]:
    """The resource of NVIDIA's device plugin, and a container of the stock scheduler's that holds one."""
    amounts: dict[str, str | None] = {RESOURCE_NVIDIA_GPU: "2"}
    kind.kube.patch("nodes", node, {"status": {"capacity": amounts, "allocatable": amounts}}, subresource="status")
    limits = {RESOURCE_NVIDIA_GPU: "1"}
    pod = container_pod("cuda", namespace, limits, schedulerName="default-scheduler", nodeSelector={HOST: node})
    try:
        kind.kube.create(pod)
        wait_for_running(kind, namespace, "cuda")
        yield
    finally:
        kind.kube.delete("pods", "cuda", namespace)
        gone = dict.fromkeys(amounts)
        kind.kube.patch("nodes", node, {"status": {"capacity": gone, "allocatable": gone}}, subresource="status")


@contextmanager
def time_slicing(kind: KindCluster, node: str, _namespace: str) -> Iterator[None]:
    """The labels of GPU Feature Discovery where the plugin shares each GPU."""
    labels = {GFD_REPLICAS: "4", GFD_SHARING: "time-slicing"}
    kind.label(node, labels)
    try:
        wait_until_known(kind, node, SHARED)
        yield
    finally:
        kind.label(node, dict.fromkeys(labels))


@contextmanager
def dra_driver(kind: KindCluster, node: str, _namespace: str) -> Iterator[None]:
    """A slice of NVIDIA's driver of dynamic resource allocation."""
    name = f"{node}-gpu"
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRA_DRIVER, "nodeName": node, "pool": pool, "devices": [{"name": "gpu-0"}]}
    meta = {"name": name}
    kind.kube.create({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": meta, "spec": spec})
    try:
        wait_until_known(kind, node, CLAIMED)
        yield
    finally:
        kind.kube.delete("resourceslices", name)


GIVERS: Final[dict[str, tuple[Giver, str]]] = {
    "plugin": (plugin, f"pods on the node hold GPUs through {RESOURCE_NVIDIA_GPU}, and nobody knows which"),
    "time-slicing": (time_slicing, SHARED),
    "dra-driver": (dra_driver, CLAIMED),
}


def test_a_container_waits_with_words_until_nobody_else_gives_the_gpus(
    kind: KindCluster, gpu_workers: list[str], tenant: str
) -> None:
    node = gpu_workers[0]
    limits, where = {RESOURCE_GPU_MEMORY: "4000"}, {HOST: node}
    kind.kube.create(container_pod("early", tenant, limits, nodeSelector=where))
    wait_for_running(kind, tenant, "early")

    for name, (giver, words) in GIVERS.items():
        with giver(kind, node, tenant):
            kind.kube.create(container_pod(name, tenant, limits, nodeSelector=where))
            wait_for_refusal(kind, tenant, words)
            phases = {each["metadata"]["name"]: each["status"]["phase"] for each in kind.pods(tenant)}
            assert (phases["early"], phases[name]) == ("Running", "Pending"), "what was there before stays"
        wait_for_running(kind, tenant, name)
        assert set(printed(kind, tenant, name)) <= {"0", "1"}


def test_a_runtime_class_is_kept_and_runs(kind: KindCluster, gpu_workers: list[str], tenant: str) -> None:
    """`runc` in place of NVIDIA's handler, which no node here has."""
    runtime = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": RUNTIME}}
    kind.kube.create({**runtime, "handler": "runc"})
    spec = {"runtimeClassName": RUNTIME, "nodeSelector": {HOST: gpu_workers[0]}}
    try:
        kind.kube.create(container_pod("classed", tenant, {RESOURCE_GPU_MEMORY: "4000"}, **spec))
        wait_for_running(kind, tenant, "classed")
        assert printed(kind, tenant, "classed")[0] in {"0", "1"}
    finally:
        kind.kube.delete("runtimeclasses", RUNTIME)
