"""Promise: where the apiserver admits no pod of a Deployment, the service says so in its words."""

from __future__ import annotations

from harness.cluster import Cluster
from harness.sandbox import Sandbox


def test_a_service_account_that_is_missing_is_named(cluster: Cluster, namespace: str) -> None:
    with Sandbox.cleared(cluster, namespace) as sandbox:
        sandbox.nodes("gpu", count=1, gpus=2)
        kind = sandbox.instance_type("gpu")
        sandbox.profile("m", kind)
        containers = [{"name": "model", "image": "none"}]
        sandbox.service(
            "svc", "m", [kind], {"spec.template": {"spec": {"serviceAccountName": "nobody", "containers": containers}}}
        )

        told = cluster.wait_for_condition(
            "hisvc", "svc", namespace, "CapacityAvailable", status="False", reason="InstancesRefused"
        )
        assert kind in told.message
        assert 'serviceaccount "nobody" not found' in told.message

        cluster.apply(
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "nobody", "namespace": namespace}}
        )
        sandbox.ready("svc", timeout=90)
