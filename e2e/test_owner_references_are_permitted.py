"""Promise: hetserve works where OwnerReferencesPermissionEnforcement asks who may keep an owner from being deleted."""

from __future__ import annotations

import json

from harness.cluster import Cluster
from harness.kube import Manifest
from harness.sandbox import Sandbox

SOMEBODY = "somebody"


def may_make_deployments(cluster: Cluster, namespace: str) -> None:
    """Give a user all rights on Deployments, and none on the finalizers of services."""
    rbac = "rbac.authorization.k8s.io"
    metadata = {"name": SOMEBODY, "namespace": namespace}
    rule = {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["*"]}
    cluster.apply({"apiVersion": f"{rbac}/v1", "kind": "Role", "metadata": metadata, "rules": [rule]})
    subject = {"apiGroup": rbac, "kind": "User", "name": SOMEBODY}
    role = {"apiGroup": rbac, "kind": "Role", "name": SOMEBODY}
    binding = {"apiVersion": f"{rbac}/v1", "kind": "RoleBinding", "metadata": metadata}
    cluster.apply({**binding, "subjects": [subject], "roleRef": role})


def copy_of(deployment: Manifest) -> Manifest:
    metadata = {key: deployment["metadata"][key] for key in ("namespace", "labels", "ownerReferences")}
    spec = {key: deployment["spec"][key] for key in ("selector", "template")}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {**metadata, "name": "copy"}, "spec": spec}


def test_our_deployments_refer_to_their_service_under_the_plugin(cluster: Cluster, namespace: str) -> None:
    with Sandbox.cleared(cluster, namespace) as sandbox:
        sandbox.nodes("gpu", count=1, gpus=2)
        kind = sandbox.instance_type("gpu")
        sandbox.profile("m", kind)
        sandbox.service("svc", "m", [kind])

        sandbox.ready("svc")
        (deployment,) = cluster.kube.list("deployments", namespace)
        (owner,) = deployment["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["name"], owner["blockOwnerDeletion"]) == ("InferenceService", "svc", True)

        may_make_deployments(cluster, namespace)
        manifest = json.dumps(copy_of(deployment))
        words = cluster.kubectl("create", "-f", "-", f"--as={SOMEBODY}", stdin=manifest, check=False)
        assert "cannot set blockOwnerDeletion" in words, "the plugin is not at work, so this shows nothing"
