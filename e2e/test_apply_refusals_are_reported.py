"""Promise: a template that apply refuses is reported with its field; what runs stays, a correction is rolled out."""

from __future__ import annotations

import copy
from typing import Any

from harness import limits
from harness.cluster import Cluster
from harness.sandbox import Sandbox
from harness.waiting import Unmet, wait_until

GOOD: dict[str, Any] = {"name": "model", "image": "none"}
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "an env named twice": ({"env": [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]}, ".env: duplicate"),
    "a port given twice": ({"ports": [{"containerPort": 80}, {"containerPort": 80}]}, ".ports: duplicate"),
    "a misspelled field": ({"imagePullPolice": "Always"}, ".imagePullPolice: field not declared"),
    "a field of another type": ({"args": "serve"}, ".args: expected list"),
    "a quantity that is none": ({"resources": {"limits": {"ephemeral-storage": "many"}}}, "'many' is not a quantity"),
}


def template(**fields: Any) -> dict[str, Any]:
    return {"spec": {"terminationGracePeriodSeconds": 1, "containers": [{**copy.deepcopy(GOOD), **fields}]}}


def test_a_refused_template_is_reported_and_a_corrected_one_rolled_out(cluster: Cluster, namespace: str) -> None:
    with Sandbox.cleared(cluster, namespace) as sandbox:
        sandbox.nodes("gpu", count=1, gpus=2)
        kind = sandbox.instance_type("gpu")
        sandbox.profile("m", kind)
        sandbox.service("svc", "m", [kind], {"spec.template": template()})
        sandbox.ready("svc")
        before = {pod["metadata"]["uid"] for pod in sandbox.bound()}

        for what, (fields, words) in REFUSED.items():
            sandbox.edit("svc", {"spec": {"template": template(**fields)}})

            def told(what: str = what, words: str = words) -> bool | Unmet:
                service = sandbox.kube.get("inferenceservices", "svc", namespace)
                ready = next(c for c in service["status"]["conditions"] if c["type"] == "Ready")
                fits = ready["reason"] == "TemplateInvalid" and words in ready["message"]
                return fits or Unmet(f"{what}: {ready}")

            wait_until(told, limits.REACTION, f"{what} to be told")
        noted = [event.get("message", "") for event in cluster.events(namespace, reason="TemplateInvalid")]
        assert any(REFUSED["an env named twice"][1] in note for note in noted)
        assert {pod["metadata"]["uid"] for pod in sandbox.bound()} == before, "what runs stays"

        sandbox.edit("svc", {"spec": {"template": template(image="good:2")}})
        sandbox.ready("svc")


def test_a_service_made_anew_does_not_wait_for_the_failures_of_its_predecessor(
    cluster: Cluster, namespace: str
) -> None:
    with Sandbox.cleared(cluster, namespace) as sandbox:
        sandbox.nodes("gpu", count=1, gpus=2)
        kind = sandbox.instance_type("gpu")
        sandbox.profile("m", kind)
        sandbox.service("svc", "m", [kind], {"spec.template": template(imagePullPolice="Always")})
        cluster.wait_for_condition("hisvc", "svc", namespace, "Ready", status="False", reason="TemplateInvalid")

        cluster.kube.delete("inferenceservices", "svc", namespace)
        wait_until(
            lambda: cluster.kube.find("inferenceservices", "svc", namespace) is None, limits.ANSWER, "it to be gone"
        )
        sandbox.service("svc", "m", [kind], {"spec.template": template()})
        sandbox.ready("svc")
