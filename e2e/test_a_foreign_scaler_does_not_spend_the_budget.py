"""Promise: foreign scaling of a Deployment, by hand or autoscaler, keeps no service over its budget, and is named."""

from __future__ import annotations

import pytest

from harness import limits
from harness.cluster import Cluster
from harness.sandbox import Sandbox
from harness.waiting import Unmet, wait_until
from testing.scenes import autoscaler

FEW, MANY = 2, 8
"""Many: more often than repairs are free of delay; the next one is held back for 8 s, its successors ever longer."""


@pytest.mark.parametrize("edits", [FEW, pytest.param(MANY, marks=pytest.mark.deep)])
def test_replicas_beyond_the_budget_are_taken_back_however_often(cluster: Cluster, namespace: str, edits: int) -> None:
    """How soon: tests/unit/operator/test_operator_foreign_scaler.py, in virtual time."""
    with Sandbox.cleared(cluster, namespace) as sandbox:
        sandbox.nodes("gpu", count=2, gpus=2)
        kind = sandbox.instance_type("gpu", overrides={"spec.price.hourly": "0.5"})
        sandbox.profile("m", kind)
        sandbox.service("svc", "m", [kind], {"spec.load": {"expectedQPS": 8}, "spec.budget": {"hourly": "0.5"}})
        sandbox.ready("svc")
        (deployment,) = cluster.kube.list("deployments", namespace)
        name, spec = deployment["metadata"]["name"], deployment["spec"]

        def put_back() -> bool | Unmet:
            now = cluster.kube.get("deployments", name, namespace)["spec"]
            return now == spec or Unmet({key: now[key] for key in now if now[key] != spec.get(key)})

        for _ in range(edits):
            cluster.kube.patch("deployments", name, {"spec": {"minReadySeconds": 1}}, namespace)
            wait_until(put_back, limits.REACTION, "an edit that costs nothing to be undone")

        for _ in range(2):
            cluster.kubectl("scale", "deployment", name, "--replicas=4", "--namespace", namespace)
            wait_until(put_back, limits.REACTION, "the replicas to be taken back")
        sandbox.ready("svc")


def test_an_autoscaler_of_a_services_deployment_is_named_until_it_goes(cluster: Cluster, namespace: str) -> None:
    with Sandbox.cleared(cluster, namespace) as sandbox:
        sandbox.nodes("gpu", count=1, gpus=2)
        kind = sandbox.instance_type("gpu")
        sandbox.profile("m", kind)
        sandbox.service("svc", "m", [kind])
        sandbox.ready("svc")
        (deployment,) = cluster.kube.list("deployments", namespace)
        name = deployment["metadata"]["name"]
        cluster.apply(autoscaler("theirs", name, namespace=namespace))

        told = cluster.wait_for_condition(
            "hisvc", "svc", namespace, "ScalingActive", status="False", reason="ForeignScaler"
        )
        assert f"HorizontalPodAutoscaler theirs changes the replicas of Deployment {name}" in told.message

        cluster.kube.delete("horizontalpodautoscalers", "theirs", namespace)

        def unsaid() -> bool | Unmet:
            conditions = cluster.get("hisvc", "svc", namespace)["status"]["conditions"]
            return all(one["type"] != "ScalingActive" for one in conditions) or Unmet(conditions)

        wait_until(unsaid, limits.REACTION, "nothing to be said of a scaler that is gone")
