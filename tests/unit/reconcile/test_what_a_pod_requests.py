"""The operator computes a pod's requests as Kubernetes does (component-helpers, resource.PodRequests)."""

from __future__ import annotations

from typing import Any

import pytest

from hetserve.reconcile.cluster.observed import pod_fact
from testing.cluster import gpu_pod

Json = dict[str, Any]


def container(cpu: str | None = None, *, sidecar: bool = False, **amounts: str) -> Json:
    requests = ({} if cpu is None else {"cpu": cpu}) | amounts
    return {"resources": {"requests": requests}} | ({"restartPolicy": "Always"} if sidecar else {})


def requested(**spec: Any) -> tuple[int, int]:
    """(millicores, MiB) of a pod."""
    raw = gpu_pod(node="n0", gpu="0")
    raw["spec"] |= spec
    fact = pod_fact(raw)
    assert fact is not None
    return fact.cpu, fact.memory


CPU: dict[str, tuple[Json, int]] = {
    "the pod's own word stands for its containers": (
        {"containers": [container("1")], "resources": {"requests": {"cpu": "3"}}, "overhead": {"cpu": "250m"}},
        3250,
    ),
    "also where it is less": (
        {"containers": [container("8")], "resources": {"requests": {"cpu": "3"}}},
        3000,
    ),
    "and for the resources that it names": (
        {"containers": [container("8")], "resources": {"requests": {"memory": "1Gi"}}},
        8000,
    ),
    "limits alone stand in no stored pod": ({"containers": [{"resources": {"limits": {"cpu": "1"}}}]}, 0),
    "nothing asked": ({"containers": [container()], "resources": None, "overhead": None}, 0),
}


@pytest.mark.parametrize("what", CPU)
def test_the_cpu_that_a_pod_requests(what: str) -> None:
    spec, millicores = CPU[what]
    assert requested(**spec)[0] == millicores


def test_memory_is_counted_alike() -> None:
    init = [container(memory="1Gi", sidecar=True), container(memory="4Gi")]
    assert requested(containers=[container(memory="512Mi")], initContainers=init)[1] == 5 * 1024
    assert requested(containers=[container(memory="1Gi")], resources={"requests": {"memory": "3Gi"}})[1] == 3 * 1024


@pytest.mark.parametrize("where", ["containers", "initContainers"])
def test_what_nobody_can_mean_is_more_than_any_node_has_as_it_is_for_kubernetes(where: str) -> None:
    assert requested(**{where: [container("1e9999999", memory="1e9999999")]}) == ((1 << 63) - 1, (1 << 63) - 1)
