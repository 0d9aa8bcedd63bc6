"""Promise: the next operator finishes what one that dies between two writes has begun."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from harness import limits
from harness.cluster import Cluster
from harness.kube import ApiError
from harness.sandbox import Sandbox
from harness.waiting import Unmet, wait_until


def refusal(name: str, namespace: str, kind: str) -> list[dict[str, Any]]:
    """Policy and binding by which the apiserver refuses Deployments of one instance type in one namespace."""
    policy = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
                "resourceRules": [
                    {
                        "apiGroups": ["apps"],
                        "apiVersions": ["v1"],
                        "operations": ["CREATE", "UPDATE"],
                        "resources": ["deployments"],
                    }
                ],
            },
            "validations": [
                {
                    # Dry runs may pass.
                    "expression": f"has(request.dryRun) && request.dryRun"
                    f" || object.metadata.labels['hetserve.io/instance-type'] != '{kind}'",
                    "message": f"no {kind} now",
                }
            ],
        },
    }
    binding = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name},
        "spec": {"policyName": name, "validationActions": ["Deny"]},
    }
    return [policy, binding]


@contextmanager
def deployments_refused(cluster: Cluster, namespace: str, kind: str) -> Iterator[None]:
    """The apiserver refuses Deployments of one instance type, which separates the writes before from those after."""
    name = f"refuse-{namespace}"
    cluster.apply(refusal(name, namespace, kind))
    wait_until(lambda: probe_is_refused(cluster, namespace, kind), limits.REACTION, "the refusal to be in force")
    try:
        yield
    finally:
        cluster.kube.delete("validatingadmissionpolicybindings", name)
        cluster.kube.delete("validatingadmissionpolicies", name)


def probe_is_refused(cluster: Cluster, namespace: str, kind: str) -> bool:
    """Whether a Deployment without replicas is refused; an accepted one is deleted."""
    labels = {"hetserve.io/instance-type": kind}
    spec = {
        "replicas": 0,
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "none", "image": "none"}]}},
    }
    metadata = {"name": "probe", "namespace": namespace, "labels": labels}
    try:
        cluster.kube.create({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec})
    except ApiError as refused:
        return f"no {kind} now" in refused.message
    cluster.kube.delete("deployments", "probe", namespace)
    return False


def types_with_deployments(sandbox: Sandbox) -> set[str]:
    found = sandbox.kube.list("deployments", sandbox.namespace)
    return {item["metadata"]["labels"]["hetserve.io/instance-type"] for item in found}


def test_the_successor_finishes_what_was_begun(cluster: Cluster, namespace: str, components_running: None) -> None:
    with Sandbox.cleared(cluster, namespace) as sandbox:
        kinds = []
        for name in ("a", "b"):
            sandbox.nodes(name, count=1, gpus=2)
            kinds.append(sandbox.instance_type(name))
            sandbox.profile("m", kinds[-1])
        first, second = sorted(kinds)
        with deployments_refused(cluster, namespace, second):
            sandbox.service(
                "svc", "m", kinds, {"spec.load": {"expectedQPS": 30}}
            )  # 4 instances: all GPUs of both types

            def begun() -> bool | Unmet:
                return types_with_deployments(sandbox) == {first} or Unmet(types_with_deployments(sandbox))

            wait_until(begun, limits.REACTION, "the first Deployment alone")
            cluster.kill_component("operator")
            assert types_with_deployments(sandbox) == {first}, "killed between the two writes"

        cluster.start_component("operator")

        sandbox.ready("svc")
        assert sandbox.counts("svc") == {first: 2, second: 2}
        assert len(sandbox.kube.list("deployments", namespace)) == 2
        sandbox.wait_for_bound(4)
