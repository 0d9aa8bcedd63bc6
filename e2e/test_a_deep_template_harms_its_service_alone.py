"""Promise: a service whose template is nested too deeply to be read is told so, and nobody else notices."""

from __future__ import annotations

import json

import pytest

from harness import limits
from harness.cluster import Cluster
from harness.kube import Manifest
from harness.sandbox import Sandbox
from harness.waiting import Unmet, wait_until
from hetserve.api.names import LABEL_SERVICE

PATH = "/apis/hetserve.io/v1alpha1/namespaces/{}/inferenceservices"
PLACE = "nested here"


def deep(raw: Manifest, levels: int) -> str:
    """JSON of a service with such a template, which no encoder writes."""
    raw["spec"]["template"]["metadata"] = {"labels": PLACE}
    return json.dumps(raw).replace(f'"{PLACE}"', '{"a":' * levels + "1" + "}" * levels)


def uids(sandbox: Sandbox, service: str) -> set[str]:
    return {pod["metadata"]["uid"] for pod in sandbox.bound(f"{LABEL_SERVICE}={service}")}


@pytest.mark.parametrize("levels", [300, 1000, 9000])
def test_a_template_of_any_depth_is_refused_while_others_are_served(
    cluster: Cluster, namespace: str, levels: int, components_running: None
) -> None:
    path, of_deep = f"{PATH.format(namespace)}/deep", ("hisvc", "deep", "-n", namespace)
    with Sandbox.cleared(cluster, namespace) as sandbox:
        sandbox.nodes("gpu", count=1, gpus=2)
        kind = sandbox.instance_type("gpu")
        for model in ("m", "n"):
            sandbox.profile(model, kind)
        raw = sandbox.service("deep", "m", [kind])
        meta = {**raw["metadata"], "resourceVersion": sandbox.ready("deep")["metadata"]["resourceVersion"]}
        running = uids(sandbox, "deep")
        cluster.kubectl("replace", "--raw", path, "-f", "-", stdin=deep({**raw, "metadata": meta}, levels))
        try:

            def told() -> str | Unmet:
                found = cluster.kubectl("get", *of_deep, "-o", "jsonpath={.status.conditions}")
                return found if "TemplateInvalid" in found else Unmet(found)

            assert "spec.template.metadata.labels.a.a" in wait_until(told, limits.ROLLOUT, "TemplateInvalid")
            for name in ("extender", "operator"):
                cluster.restart_component(name)
            sandbox.service("later", "n", [kind])
            sandbox.ready("later")
            assert uids(sandbox, "deep") == running
        finally:
            cluster.kubectl("delete", "--raw", path)
