"""Promise: a GitOps tool's health check, which reads by kstatus's rules, and `kubectl wait` tell good from stuck."""

from __future__ import annotations

from typing import Any

import pytest

from harness.cluster import Cluster
from harness.sandbox import Sandbox
from kstatus import kstatus

STUCK: dict[str, dict[str, Any]] = {
    "NoTypeMeetsSLO": {"spec.slo.latency": "99ms"},
    "BudgetTooLow": {
        "spec.objective": "MaxThroughput",
        "spec.budget": {"hourly": "0.3"},
        "spec.load": {"batchSizes": [{"batch": 1, "weight": 1}]},
    },
}


def waited_for(cluster: Cluster, namespace: str, name: str, *conditions: str) -> str:
    """How kstatus reads a service once `kubectl wait` has seen the conditions."""
    for condition in conditions:
        wanted = f"--for=condition={condition}"
        cluster.kubectl("wait", f"hisvc/{name}", "--namespace", namespace, wanted, "--timeout=60s")
    return kstatus(cluster.kube.get("hisvc", name, namespace))


def test_a_good_service_is_current_one_that_cannot_be_planned_failed_and_each_becomes_the_other(
    cluster: Cluster, namespace: str
) -> None:
    with Sandbox.cleared(cluster, namespace) as sandbox:
        sandbox.nodes("gpu", count=1, gpus=2)
        kind = sandbox.instance_type("gpu")
        sandbox.profile("m", kind)
        sandbox.service("svc", "m", [kind])
        assert waited_for(cluster, namespace, "svc", "Ready", "Reconciling=False", "Stalled=False") == "Current"

        sandbox.edit("svc", {"spec": {"slo": {"latency": "99ms"}}})
        assert waited_for(cluster, namespace, "svc", "Stalled", "Ready=False", "Reconciling=False") == "Failed"

        sandbox.edit("svc", {"spec": {"slo": {"latency": "200ms"}}})
        assert waited_for(cluster, namespace, "svc", "Ready", "Stalled=False") == "Current"


@pytest.mark.parametrize("reason", STUCK)
def test_a_new_service_that_cannot_be_planned_is_failed(cluster: Cluster, namespace: str, reason: str) -> None:
    with Sandbox.cleared(cluster, namespace) as sandbox:
        sandbox.nodes("gpu", count=1, gpus=1)
        kind = sandbox.instance_type("gpu")
        sandbox.profile("m", kind)
        sandbox.service("svc", "m", [kind], STUCK[reason])

        assert waited_for(cluster, namespace, "svc", "Stalled") == "Failed"
        assert cluster.conditions("hisvc", "svc", namespace)["Stalled"].reason == reason
