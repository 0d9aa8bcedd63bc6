"""Promise: a user's own Job or StatefulSet with our gate and resource is queued and placed as a service's pods are."""

from __future__ import annotations

from typing import Any

from harness import limits
from harness.cluster import Cluster
from harness.nodes import INSTANCE_TYPE_LABEL
from harness.sandbox import Sandbox
from harness.waiting import Unmet, wait_until
from hetserve.api.names import (
    ANNOTATION_GPU,
    ANNOTATION_GPU_MEMORY,
    LABEL_MODEL,
    QUEUE_GATE,
    RESOURCE_GPU_MEMORY,
    SCHEDULER_NAME,
)

PER_GPU = 4


def template(sandbox: Sandbox, labels: dict[str, str], mib: int, *, restart: str) -> dict[str, Any]:
    return {
        "metadata": {"labels": labels},
        "spec": {
            "schedulerName": SCHEDULER_NAME,
            "schedulingGates": [{"name": QUEUE_GATE}],
            "nodeSelector": {INSTANCE_TYPE_LABEL: sandbox.scoped("small")},
            "restartPolicy": restart,
            "terminationGracePeriodSeconds": 1,
            "containers": [{"name": "work", "image": "none", "resources": {"limits": {RESOURCE_GPU_MEMORY: str(mib)}}}],
        },
    }


def test_a_job_larger_than_the_gpus_is_worked_off_as_pods_finish(cluster: Cluster, namespace: str) -> None:
    """12 pods without a model, four to a GPU, on one GPU: the later ones get what the finished ones leave."""
    with Sandbox.cleared(cluster, namespace) as sandbox:
        sandbox.nodes("small", count=1, gpus=1)
        spec = {
            "parallelism": 12,
            "completions": 12,
            "template": template(sandbox, {"app": "job"}, 16384 // PER_GPU, restart="Never"),
        }
        metadata = {"name": "job", "namespace": namespace}
        cluster.apply({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec})

        def complete() -> bool | Unmet:
            status = cluster.kube.get("jobs", "job", namespace).get("status", {})
            return status.get("succeeded") == 12 or Unmet(status)

        wait_until(complete, limits.CROWD, "the job to complete")
        for pod in cluster.pods(namespace):
            assert pod["metadata"]["annotations"][ANNOTATION_GPU] == "0"
            assert pod["metadata"]["annotations"][ANNOTATION_GPU_MEMORY] == str(16384 // PER_GPU)
        held = [gpu for gpu in cluster.ledger()["gpus"] if gpu["node"].startswith(sandbox.scoped("small")[:50])]
        assert [gpu["pods"] for gpu in held] == [[]], "finished pods still hold the GPU"
        cluster.kube.delete("jobs", "job", namespace)


def test_a_stateful_set_gets_its_pods_placed_one_by_one_on_gpus_of_their_own(cluster: Cluster, namespace: str) -> None:
    with Sandbox.cleared(cluster, namespace) as sandbox:
        sandbox.nodes("small", count=2, gpus=2)
        labels = {"app": "set", LABEL_MODEL: f"set-{namespace}"[:63].rstrip("-")}
        spec = {
            "replicas": 3,
            "serviceName": "set",
            "selector": {"matchLabels": {"app": "set"}},
            "template": template(sandbox, labels, 2048, restart="Always"),
        }
        metadata = {"name": "set", "namespace": namespace}
        cluster.apply({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": metadata, "spec": spec})
        try:
            bound = sandbox.wait_for_bound(3, "app=set", timeout=limits.ROLLOUT)
            gpus = {(pod["spec"]["nodeName"], pod["metadata"]["annotations"][ANNOTATION_GPU]) for pod in bound}
            assert len(gpus) == 3, "two instances of one model share a GPU"

            cluster.kube.delete("pods", "set-1", namespace, grace=0)  # its successor has its name and another UID
            old = {pod["metadata"]["uid"] for pod in bound}

            def replaced() -> bool | Unmet:
                now = [pod for pod in sandbox.bound("app=set") if pod["metadata"]["uid"] not in old]
                return len(now) == 1 or Unmet(now)

            wait_until(replaced, limits.REACTION, "the deleted pod's successor to be bound")
        finally:
            cluster.kube.delete("statefulsets", "set", namespace)
