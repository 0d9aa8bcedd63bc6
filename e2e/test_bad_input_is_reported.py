"""Promise: an unplannable service reports names and numbers, what runs stays, and other services continue."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from harness.cluster import Cluster
from harness.sandbox import Sandbox
from testing import builders

CASES: dict[str, tuple[dict[str, Any], str, str, tuple[str, ...]]] = {
    "an instance type that does not exist": (
        {"spec.instanceTypes": {"names": ["p9.huge"]}},
        "Planned",
        "InstanceTypeNotFound",
        ("p9.huge",),
    ),
    "a model without a profile": ({"spec.model.name": "unmeasured"}, "Planned", "ProfileMissing", ("unmeasured",)),
    "an SLO that no type meets": (
        {"spec.slo.latency": "99ms"},
        "Feasible",
        "NoTypeMeetsSLO",
        ("99", "100"),
    ),
    "a budget below the cheapest base instance": (
        {
            "spec.objective": "MaxThroughput",
            "spec.budget": {"hourly": "0.3"},
            "spec.load": {"batchSizes": [{"batch": 1, "weight": 1}]},
        },
        "Feasible",
        "BudgetTooLow",
        ("0.3", "0.526"),
    ),
    "no load to plan for": ({"spec.load": builders.REMOVED}, "Planned", "LoadUnknown", ("expectedQPS",)),
    "a load beyond all GPUs": ({"spec.load": {"expectedQPS": 1000}}, "Feasible", "CapacityTooLow", ("1000",)),
}


@pytest.mark.parametrize(("overrides", "condition", "reason", "words"), CASES.values(), ids=CASES)
def test_a_condition_names_the_thing_and_the_numbers(
    cluster: Cluster, namespace: str, overrides: dict[str, Any], condition: str, reason: str, words: tuple[str, ...]
) -> None:
    with Sandbox.cleared(cluster, namespace) as sandbox:
        sandbox.nodes("gpu", count=1, gpus=2)
        kind = sandbox.instance_type("gpu")
        sandbox.profile("m", kind)
        sandbox.service("good", "m", [kind])

        sandbox.service("bad", "m", [kind], overrides)

        told = cluster.wait_for_condition("hisvc", "bad", namespace, condition, status="False", reason=reason)
        for word in words:
            assert word in told.message
        ready = cluster.wait_for_condition("hisvc", "bad", namespace, "Ready", status="False", reason=reason)
        assert ready.message
        sandbox.ready("good")
        assert cluster.service_pods("bad", namespace) == []


def test_what_runs_stays_when_the_new_spec_cannot_be_planned(cluster: Cluster, namespace: str) -> None:
    with Sandbox.cleared(cluster, namespace) as sandbox:
        sandbox.nodes("gpu", count=1, gpus=2)
        kind = sandbox.instance_type("gpu")
        sandbox.profile("m", kind)
        sandbox.service("svc", "m", [kind])
        sandbox.ready("svc")
        before = {pod["metadata"]["uid"] for pod in sandbox.bound()}

        sandbox.edit("svc", {"spec": {"slo": {"latency": "1ms"}}})

        cluster.wait_for_condition("hisvc", "svc", namespace, "Ready", status="False", reason="NoTypeMeetsSLO")
        assert {pod["metadata"]["uid"] for pod in sandbox.bound()} == before

        sandbox.edit("svc", {"spec": {"slo": {"latency": "200ms"}}})  # undoing the edit heals
        sandbox.ready("svc")
        assert {pod["metadata"]["uid"] for pod in sandbox.bound()} == before


def test_an_invalid_spec_is_refused_with_a_clear_message(cluster: Cluster, namespace: str) -> None:
    service = builders.service(overrides={"metadata.namespace": namespace, "spec.budget.hourly": "0"})

    answer = cluster.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(service), check=False)

    assert "must be more than 0 $/h, for example 2.5" in answer
    assert cluster.kube.list("inferenceservices", namespace) == []


def test_a_refused_template_is_reported_in_the_words_of_the_apiserver(cluster: Cluster, namespace: str) -> None:
    with Sandbox.cleared(cluster, namespace) as sandbox:
        sandbox.nodes("gpu", count=1, gpus=2)
        kind = sandbox.instance_type("gpu")
        sandbox.profile("m", kind)
        template = {"spec": {"containers": [{"name": "model", "image": "none", "imagePullPolicy": "Sometimes"}]}}
        sandbox.service("svc", "m", [kind], {"spec.template": template})

        told = cluster.wait_for_condition("hisvc", "svc", namespace, "Ready", status="False", reason="TemplateInvalid")

        assert "imagePullPolicy" in told.message
        assert "Sometimes" in told.message
