"""Promise: a service is answered by its name in the DNS of the cluster, by real pods, also while routers change."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

import pytest
from images import build

from harness import limits
from harness.containers import HOST
from harness.kind import WORKER, KindCluster
from harness.kube import is_true
from harness.one_type import SERVICE, service_on
from harness.waiting import Unmet, wait_until
from hetserve.api.names import LABEL_SERVICE, SYSTEM_NAMESPACE

PORT: Final = 8000
KIND: Final = "queries-labelled"
ASKING: Final = """
import json, sys, urllib.request
tensor = {"name": "x", "shape": [2], "datatype": "INT64", "data": [1, 2]}
given = urllib.request.Request(sys.argv[1], json.dumps({"inputs": [tensor]}).encode())
with urllib.request.urlopen(given, timeout=20) as answer:
    print(json.dumps([answer.headers["hetserve-instance"], json.load(answer)["outputs"][0]["data"]]))
"""


def worker(*arguments: str) -> dict[str, Any]:
    """A container of the worker's image, as the restricted standard asks."""
    return {
        "name": "worker",
        "image": build.tag_of(WORKER),
        "imagePullPolicy": "Never",
        "args": list(arguments),
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }


@pytest.fixture
def served(kind: KindCluster, gpu_workers: list[str], tenant: str) -> Iterator[str]:
    """The namespace of a service whose instances are the worker's image on a real node."""
    instance_type, profile, service = service_on(KIND, tenant, qps=8)
    instance_type["spec"]["nodeSelector"] = {HOST: gpu_workers[-1]}
    container = worker("--model", "echo", "--name", SERVICE, "--listen", f"0.0.0.0:{PORT}")
    ready = {"httpGet": {"path": "/v2/health/ready", "port": PORT}, "periodSeconds": 1}
    container |= {"ports": [{"containerPort": PORT}], "readinessProbe": ready}
    service["spec"]["template"]["spec"]["containers"] = [container]
    service["spec"]["dispatch"] = {"ports": {"http": PORT}}
    kind.kube.apply_all([instance_type, profile, service])
    yield tenant
    kind.kube.delete("inferenceservices", SERVICE, tenant)
    wait_until(lambda: not kind.pods(tenant), limits.ROLLOUT, "the pods to be gone")
    kind.kube.delete("instancetypes", KIND)


def instances(kind: KindCluster, namespace: str) -> set[str]:
    return {pod["metadata"]["name"] for pod in kind.kube.list("pods", namespace, labels=f"{LABEL_SERVICE}={SERVICE}")}


def asked(kind: KindCluster, namespace: str) -> Any:
    """What a pod of the namespace gets that asks the service by its name: who answered, and with what."""
    (pod, *_) = instances(kind, namespace)
    url = f"http://{SERVICE}.{namespace}/v2/models/{SERVICE}/infer"
    return json.loads(kind.kubectl("--namespace", namespace, "exec", pod, "--", "python3", "-c", ASKING, url))


def test_a_pod_is_answered_by_the_services_name_and_goes_on_so_while_routers_are_replaced(
    kind: KindCluster, served: str
) -> None:
    def ready() -> bool | Unmet:
        found = kind.kube.get("inferenceservices", SERVICE, served)
        return is_true(found, "Serving") or Unmet(found.get("status"))

    wait_until(ready, limits.ROLLOUT, "the service to be served")
    who, said = asked(kind, served)
    assert who in instances(kind, served)
    assert said == [1, 2]

    router = "deployment/hetserve-router-default"
    kind.kubectl("--namespace", SYSTEM_NAMESPACE, "rollout", "restart", router)
    before = {pod["metadata"]["uid"] for pod in kind.pods(SYSTEM_NAMESPACE, "router")}
    while before & {pod["metadata"]["uid"] for pod in kind.pods(SYSTEM_NAMESPACE, "router")}:
        assert asked(kind, served)[1] == [1, 2]
