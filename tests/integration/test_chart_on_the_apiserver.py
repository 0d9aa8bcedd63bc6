"""The complete chart passes a server-side dry run where the restricted pod-security level is enforced."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
import yaml

from harness.chart import chart_objects
from harness.cluster import Cluster

LEVELS = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "warn")}


@dataclass(frozen=True)
class Restricted:
    """A namespace that enforces the restricted level, and the chart rendered for it."""

    cluster: Cluster
    documents: list[dict[str, Any]]
    namespace: str

    def of_kind(self, kind: str) -> list[dict[str, Any]]:
        return [document for document in self.documents if document["kind"] == kind]


@pytest.fixture
def restricted(bare_cluster: Cluster, namespace: str) -> Restricted:
    bare_cluster.kube.patch("namespaces", namespace, {"metadata": {"labels": LEVELS}})
    documents = chart_objects("--namespace", namespace)
    return Restricted(bare_cluster, documents, namespace)


def dry_run(cluster: Cluster, *documents: dict[str, Any]) -> None:
    # A warning about pod security is all that a Deployment would show of pods that are refused later.
    arguments = ("apply", "--dry-run=server", "--server-side", "--warnings-as-errors", "-f", "-")
    cluster.kubectl(*arguments, stdin=yaml.safe_dump_all(documents))


def test_every_object_is_accepted(restricted: Restricted) -> None:
    dry_run(restricted.cluster, *restricted.documents)


def test_the_pods_themselves_are_admitted(restricted: Restricted) -> None:
    deployments = restricted.of_kind("Deployment")
    assert len(deployments) == 3
    restricted.cluster.apply(restricted.of_kind("ServiceAccount"))
    for deployment in deployments:
        template, name = deployment["spec"]["template"], deployment["metadata"]["name"]
        metadata = {"name": name, "namespace": restricted.namespace, "labels": template["metadata"]["labels"]}
        dry_run(restricted.cluster, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]})


def test_the_pods_of_hooks_are_admitted_before_an_account_of_the_release_is_there(restricted: Restricted) -> None:
    rendered = chart_objects("--namespace", restricted.namespace)
    hooks = [d for d in rendered if d and "helm.sh/hook" in d["metadata"].get("annotations", {})]
    restricted.cluster.apply([d for d in hooks if d["kind"] == "ServiceAccount"])
    jobs = [d for d in hooks if d["kind"] == "Job"]
    assert len(jobs) == 1
    for job in jobs:
        template, name = job["spec"]["template"], job["metadata"]["name"]
        metadata = {"name": name, "namespace": restricted.namespace, "labels": template["metadata"]["labels"]}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}
        dry_run(restricted.cluster, job, pod)


def test_a_pod_without_the_security_settings_would_be_refused(restricted: Restricted) -> None:
    operator = next(d for d in restricted.of_kind("Deployment") if d["metadata"]["name"] == "hetserve-operator")
    del operator["spec"]["template"]["spec"]["securityContext"]
    with pytest.raises(RuntimeError, match="runAsNonRoot"):
        dry_run(restricted.cluster, operator)
