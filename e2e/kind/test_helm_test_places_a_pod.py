"""Promise: `helm test` schedules a pod and ends when it has its GPU; without a GPU to be had it fails."""

from __future__ import annotations

import pytest

from harness.components import RELEASE
from harness.kind import KindCluster
from hetserve.api.names import SYSTEM_NAMESPACE

pytestmark = pytest.mark.beside


@pytest.mark.short
def test_helm_test_places_a_pod_that_says_its_gpu(kind: KindCluster, gpu_workers: list[str]) -> None:
    said = kind.helm("test", RELEASE, "--timeout", "60s", "--logs")
    assert "Succeeded" in said
    assert any(f"GPU {gpu} of node {node}" in said for gpu in ("0", "1") for node in gpu_workers), said
    assert kind.pods(SYSTEM_NAMESPACE, "test") == [], "nothing is left behind"


@pytest.mark.usefixtures("no_gpu_workers")
def test_helm_test_fails_where_no_node_has_a_gpu(kind: KindCluster) -> None:
    with pytest.raises(RuntimeError, match=r"hetserve-test-gpu"):
        kind.helm("test", RELEASE, "--timeout", "3s")
    conditions = kind.kube.get("pods", "hetserve-test-gpu", SYSTEM_NAMESPACE)["status"]["conditions"]
    assert [one["reason"] for one in conditions if one["type"] == "PodScheduled"] == ["Unschedulable"]
    kind.kube.delete("pods", "hetserve-test-gpu", SYSTEM_NAMESPACE)
