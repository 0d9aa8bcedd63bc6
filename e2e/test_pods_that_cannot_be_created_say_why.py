"""Promise: where the apiserver admits no pod of a Deployment, the service says so in its words."""

from __future__ import annotations

from typing import Any, Final

import pytest

from harness.cluster import Cluster
from harness.components import ABSENT_ACCOUNT
from harness.kube import ApiError
from harness.sandbox import Sandbox

CONTAINER: Final[dict[str, Any]] = {"name": "model", "image": "none"}
AS_RESTRICTED: Final = {
    "allowPrivilegeEscalation": False,
    "runAsNonRoot": True,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}


def test_a_service_account_that_is_missing_is_named(cluster: Cluster, namespace: str) -> None:
    with Sandbox.cleared(cluster, namespace) as sandbox:
        sandbox.nodes("gpu", count=1, gpus=2)
        kind = sandbox.instance_type("gpu")
        sandbox.profile("m", kind)
        template = {"spec": {"serviceAccountName": ABSENT_ACCOUNT, "containers": [CONTAINER]}}
        sandbox.service("svc", "m", [kind], {"spec.template": template})

        told = cluster.wait_for_condition(
            "hisvc", "svc", namespace, "CapacityAvailable", status="False", reason="InstancesRefused"
        )
        assert kind in told.message
        assert f'serviceaccount "{ABSENT_ACCOUNT}" not found' in told.message

        metadata = {"name": ABSENT_ACCOUNT, "namespace": namespace}
        cluster.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})
        sandbox.ready("svc")


def test_the_pod_security_of_the_namespace_holds_for_templates(cluster: Cluster, namespace: str) -> None:
    cluster.kube.patch(
        "namespaces", namespace, {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}
    )
    with Sandbox.cleared(cluster, namespace) as sandbox:
        sandbox.nodes("gpu", count=1, gpus=2)
        kind = sandbox.instance_type("gpu")
        sandbox.profile("m", kind)
        privileged = CONTAINER | {"securityContext": {"privileged": True}}
        sandbox.service("svc", "m", [kind], {"spec.template": {"spec": {"containers": [privileged]}}})

        told = cluster.wait_for_condition(
            "hisvc", "svc", namespace, "CapacityAvailable", status="False", reason="InstancesRefused"
        )
        assert 'violates PodSecurity "restricted' in told.message
        assert "privileged" in told.message
        assert cluster.pods(namespace) == []

        restricted = CONTAINER | {"securityContext": AS_RESTRICTED}
        sandbox.edit("svc", {"spec": {"template": {"spec": {"containers": [restricted]}}}})
        sandbox.ready("svc")


def test_an_account_that_nobody_allowed_is_refused_at_once(cluster: Cluster, namespace: str) -> None:
    with Sandbox.cleared(cluster, namespace) as sandbox:
        kind = sandbox.instance_type("gpu")
        sandbox.profile("m", kind)
        template = {"spec": {"serviceAccountName": "root", "containers": [CONTAINER]}}
        with pytest.raises(ApiError, match=r'serviceAccountName: "root" is not among .*admission.serviceAccounts'):
            sandbox.service("svc", "m", [kind], {"spec.template": template})
