"""Promise: only our own gate is touched; a pod that somebody else holds back (Kueue, say) waits for them first."""

from __future__ import annotations

from typing import Any

from harness import limits
from harness.cluster import Cluster
from harness.nodes import INSTANCE_TYPE_LABEL
from harness.sandbox import Sandbox
from harness.waiting import Unmet, wait_until
from hetserve.api.names import ANNOTATION_GPU, LABEL_MODEL, QUEUE_GATE, RESOURCE_GPU_MEMORY, SCHEDULER_NAME

OTHERS = "example.com/admission"


def gated_pod(sandbox: Sandbox, name: str, gates: list[str], *, model: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": sandbox.namespace, "labels": {LABEL_MODEL: model}},
        "spec": {
            "schedulerName": SCHEDULER_NAME,
            "schedulingGates": [{"name": gate} for gate in gates],
            "nodeSelector": {INSTANCE_TYPE_LABEL: sandbox.scoped("small")},
            "terminationGracePeriodSeconds": 1,
            "containers": [{"name": "model", "image": "none", "resources": {"limits": {RESOURCE_GPU_MEMORY: "2048"}}}],
        },
    }


def gates(cluster: Cluster, namespace: str) -> dict[str, list[str]]:
    return {
        pod["metadata"]["name"]: [gate["name"] for gate in pod["spec"].get("schedulingGates", [])]
        for pod in cluster.pods(namespace)
    }


def test_a_pod_with_the_gate_of_another_waits_for_that_one_and_keeps_ours_meanwhile(
    cluster: Cluster, namespace: str
) -> None:
    with Sandbox.cleared(cluster, namespace) as sandbox:
        sandbox.nodes("small", count=1, gpus=2)
        first = gated_pod(sandbox, "first", [OTHERS, QUEUE_GATE], model=f"{namespace}-a")
        second = gated_pod(sandbox, "second", [QUEUE_GATE, OTHERS], model=f"{namespace}-b")
        plain = gated_pod(sandbox, "plain", [QUEUE_GATE], model=f"{namespace}-c")
        for pod in (first, second, plain):
            cluster.kube.create(pod)

        sandbox.wait_for_bound(1)  # by then a round has seen all three
        assert gates(cluster, namespace) == {
            "first": [OTHERS, QUEUE_GATE],
            "second": [QUEUE_GATE, OTHERS],
            "plain": [],
        }

        for name, position in (("first", 0), ("second", 1)):
            lift = [{"op": "remove", "path": f"/spec/schedulingGates/{position}"}]
            cluster.kube.patch("pods", name, lift, namespace)
        bound = sandbox.wait_for_bound(3)
        assert all(ANNOTATION_GPU in pod["metadata"]["annotations"] for pod in bound)
        for name in ("first", "second", "plain"):
            cluster.kube.delete("pods", name, namespace, grace=0)


def test_a_pod_that_only_others_hold_is_left_alone(cluster: Cluster, namespace: str) -> None:
    with Sandbox.cleared(cluster, namespace) as sandbox:
        sandbox.nodes("small", count=1, gpus=1)
        cluster.kube.create(gated_pod(sandbox, "theirs", [OTHERS], model=f"{namespace}-a"))
        cluster.kube.create(gated_pod(sandbox, "ours", [QUEUE_GATE], model=f"{namespace}-b"))
        sandbox.wait_for_bound(1)
        assert gates(cluster, namespace) == {"theirs": [OTHERS], "ours": []}

        def not_listed() -> bool | Unmet:
            used = {pod["uid"] for gpu in cluster.ledger()["gpus"] for pod in gpu["pods"]}
            theirs = cluster.kube.get("pods", "theirs", namespace)["metadata"]["uid"]
            return theirs not in used or Unmet(used)

        wait_until(not_listed, limits.ANSWER, "no GPU to be held for a pod that nobody may schedule")
        for name in ("theirs", "ours"):
            cluster.kube.delete("pods", name, namespace, grace=0)
