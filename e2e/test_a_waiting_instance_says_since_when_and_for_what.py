"""Promise: what the operator reads of a pod that waits is what kube-scheduler says: for what, and from when on."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Any

from harness import limits
from harness.cluster import Cluster
from harness.nodes import INSTANCE_TYPE_LABEL
from harness.sandbox import Sandbox
from harness.waiting import Unmet, wait_until
from hetserve.api.names import LABEL_MODEL, RESOURCE_GPU_MEMORY, SCHEDULER_NAME
from hetserve.reconcile.cluster.observed import PodFact, pod_fact

GATE = "example.com/admission"
GATED = 2.0
"""Seconds: times in the API are of whole seconds, so one that is given too early is seen."""


def waiting_pod(cluster: Cluster, namespace: str, name: str | None = None) -> tuple[PodFact, Any]:
    """The first pod that the scheduler has refused."""

    def refused() -> tuple[PodFact, Any] | Unmet:
        pods = [pod for pod in cluster.pods(namespace) if name in (None, pod["metadata"]["name"])]
        facts = [(fact, pod) for pod in pods if (fact := pod_fact(pod)) is not None and fact.waiting is not None]
        return facts[0] if facts else Unmet([pod.get("status") for pod in pods])

    return wait_until(refused, limits.REACTION, "a pod that the scheduler refuses")


def test_an_instance_whose_model_is_on_every_gpu_waits_for_that_alone(cluster: Cluster, namespace: str) -> None:
    with Sandbox.cleared(cluster, namespace) as sandbox:
        sandbox.nodes("small", count=2, gpus=1)
        sandbox.nodes("other", count=1, gpus=1)
        sandbox.deployment("first", "small", replicas=3, mib=4096, model="resnet50")
        same, raw = waiting_pod(cluster, namespace)
        assert same.other_model, raw["status"]

        sandbox.nodes("narrow", count=1, gpus=1)
        sandbox.deployment("large", "narrow", replicas=1, mib=4_000_000, model="transformer")
        wait_until(
            lambda: len([p for p in cluster.pods(namespace) if "large" in p["metadata"]["name"]]),
            limits.ANSWER,
            "its pod",
        )
        name = next(p["metadata"]["name"] for p in cluster.pods(namespace) if "large" in p["metadata"]["name"])
        large, raw = waiting_pod(cluster, namespace, name)
        assert not large.other_model, raw["status"]


def test_a_pod_that_was_gated_waits_from_its_release_on(cluster: Cluster, namespace: str) -> None:
    with Sandbox.cleared(cluster, namespace) as sandbox:
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "held", "namespace": namespace, "labels": {LABEL_MODEL: "m"}},
            "spec": {
                "schedulerName": SCHEDULER_NAME,
                "schedulingGates": [{"name": GATE}],
                "nodeSelector": {INSTANCE_TYPE_LABEL: sandbox.scoped("nowhere")},
                "containers": [{"name": "m", "image": "none", "resources": {"limits": {RESOURCE_GPU_MEMORY: "2048"}}}],
            },
        }
        cluster.kube.create(pod)
        time.sleep(GATED)
        released = datetime.now(UTC).timestamp()
        cluster.kube.patch("pods", "held", [{"op": "remove", "path": "/spec/schedulingGates"}], namespace)
        fact, raw = waiting_pod(cluster, namespace)
        cluster.kube.delete("pods", "held", namespace, grace=0)
        seen = raw["status"]["conditions"], raw["metadata"].get("managedFields")
        assert fact.refused_since is not None, seen
        assert released - 1.0 <= fact.refused_since <= datetime.now(UTC).timestamp() + 1.0, seen
