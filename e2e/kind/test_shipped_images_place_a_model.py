"""Promise: the shipped images, installed by helm under the restricted standard, plan a service and place its pods."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import pytest

from harness import limits
from harness.kind import KindCluster
from harness.kube import is_true
from harness.nodes import Gpus, NodeGroup
from harness.one_type import service_on
from harness.waiting import Unmet, wait_until
from hetserve.api.names import ANNOTATION_GPU, SYSTEM_NAMESPACE

GOAL: Final = 60.0
"""Seconds from the begin of helm install to the first binding, images being there."""
FAKE = NodeGroup("fake-t4", "fake-t4", 2, cpu="16", memory="64Gi", gpus=Gpus("Tesla-T4", 15360, 2))


@pytest.mark.beside
@pytest.mark.parametrize(
    "component",
    ["operator", pytest.param("scheduler", marks=pytest.mark.short)],
)
def test_components_are_ready_under_the_restricted_standard(kind: KindCluster, component: str) -> None:
    namespace = kind.kube.get("namespaces", SYSTEM_NAMESPACE)
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    pods = kind.pods(SYSTEM_NAMESPACE, component)
    assert pods
    deployment = kind.kube.get("deployments", f"hetserve-{component}", SYSTEM_NAMESPACE)
    assert is_true(deployment, "Available")
    for pod in pods:
        for status in pod["status"]["containerStatuses"]:
            assert (status["restartCount"], status["ready"]) == (0, True), status["name"]


@contextmanager
def gpu_nodes(kind: KindCluster, tenant: str) -> Iterator[None]:
    """Nodes with simulated GPUs during the block; the tenant's service goes before they do."""
    kind.add_nodes(FAKE)
    try:
        yield
    finally:
        kind.kube.delete("inferenceservices", "rm", tenant)
        wait_until(lambda: not kind.pods(tenant), limits.ROLLOUT, "the pods to be gone while their nodes are there")
        kind.kube.delete("instancetypes", "fake-t4")
        kind.remove_nodes(FAKE)


def first_bound(kind: KindCluster, tenant: str) -> list[dict[str, Any]]:
    """Applies a service and waits for a node of its first pods; returns these."""
    kind.kube.apply_all(service_on("fake-t4", tenant, qps=8))

    def bound() -> list[dict[str, Any]] | Unmet:
        pods = [pod for pod in kind.pods(tenant) if pod["spec"].get("nodeName")]
        status = kind.kube.get("inferenceservices", "rm", tenant).get("status", {})
        return pods or Unmet(status)

    return wait_until(bound, GOAL, "a pod to be bound")


def test_the_first_pod_has_its_gpu_within_a_minute_of_helm_install(bare_kind: KindCluster, tenant: str) -> None:
    """The last that installs for itself: what it installed is what the next ones use."""
    began = time.monotonic()
    bare_kind.install()
    installed = time.monotonic() - began
    with gpu_nodes(bare_kind, tenant):
        first_bound(bare_kind, tenant)
        took = time.monotonic() - began
    print(f"helm install --wait: {installed:.1f} s; from its begin to the first binding: {took:.1f} s")
    assert took < GOAL


@pytest.mark.beside
def test_a_service_is_planned_and_its_pods_are_bound_to_simulated_gpus(kind: KindCluster, tenant: str) -> None:
    with gpu_nodes(kind, tenant):
        for pod in first_bound(kind, tenant):
            assert pod["spec"]["nodeName"] in FAKE.node_names()
            assert pod["metadata"]["annotations"][ANNOTATION_GPU]
        wait_until(
            lambda: is_true(kind.kube.get("inferenceservices", "rm", tenant), "Ready"),
            limits.ROLLOUT,
            "the service to be Ready",
        )
