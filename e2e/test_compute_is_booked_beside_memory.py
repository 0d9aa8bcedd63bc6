"""Promise: who declares compute gets no GPU without it, is told so, and shares with nobody who declares none."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from harness import limits
from harness.cluster import Cluster
from harness.commands import hetserve
from harness.kube import Manifest
from harness.nodes import INSTANCE_TYPE_LABEL
from harness.sandbox import GPU_MIB, Sandbox
from harness.waiting import Unmet, wait_until
from hetserve.api import names
from hetserve.placement.check import violations

NOTHING_FITS = 3


def why(cluster: Cluster, namespace: str, pod: str) -> Any:
    """What the real command says of a pod that fits nowhere now."""
    account = cluster.folder.kubeconfig
    return json.loads(hetserve("why", pod, "-n", namespace, "-o", "json", account=account, code=NOTHING_FITS))


def reasons(answer: Any) -> list[tuple[str, str]]:
    """(Kind, words) of what speaks against GPUs of the pod's own nodes."""
    return [
        (reason["kind"], reason["text"])
        for gpu in answer["gpus"]
        for reason in gpu["reasons"]
        if not any(one["kind"] == "node" for one in gpu["reasons"])
    ]


def pod(sandbox: Sandbox, name: str, compute: int | None = None, *, mib: int = 4096, gpus: int = 0) -> Manifest:
    """A pod for the nodes "gpu"; mib 0: it names no memory."""
    asked = {names.RESOURCE_GPU_MEMORY: mib, names.RESOURCE_GPU_COMPUTE: compute, names.RESOURCE_GPU: gpus}
    limits = {resource: str(amount) for resource, amount in asked.items() if amount}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {names.LABEL_MODEL: name}},
        "spec": {
            "schedulerName": names.SCHEDULER_NAME,
            "nodeSelector": {INSTANCE_TYPE_LABEL: sandbox.scoped("gpu")},
            "terminationGracePeriodSeconds": 1,
            "containers": [{"name": "model", "image": "none", "resources": {"limits": limits}}],
        },
    }


@contextmanager
def nodes(cluster: Cluster, namespace: str, gpus: int) -> Iterator[Sandbox]:
    """One node; its pods are deleted first."""
    with Sandbox.cleared(cluster, namespace) as sandbox:
        sandbox.nodes("gpu", count=1, gpus=gpus)
        try:
            yield sandbox
        finally:
            cluster.kube.delete_all("pods", namespace)


def booked(cluster: Cluster, namespace: str) -> dict[str, int | None]:
    """Percent by name of the namespace's pods, as the extender has it."""
    pods = [pod for gpu in cluster.ledger()["gpus"] for pod in gpu["pods"]]
    return {pod["name"]: pod["computePercent"] for pod in pods if pod["namespace"] == namespace}


def test_a_pod_with_room_for_its_memory_waits_for_compute_is_told_so_and_gets_what_comes_free(
    cluster: Cluster, namespace: str
) -> None:
    with nodes(cluster, namespace, gpus=1) as sandbox:
        cluster.apply(pod(sandbox, "first", 60), namespace)
        (first,) = sandbox.wait_for_bound(1)
        assert first["metadata"]["annotations"][names.ANNOTATION_GPU_COMPUTE] == "60"

        cluster.apply(pod(sandbox, "second", 60), namespace)
        message = sandbox.wait_for_refusal("no GPU with 4096 MiB and 60 percent of compute free")
        assert "the most compute free on any GPU with the memory is 40 percent" in message
        answer = why(cluster, namespace, "second")
        assert reasons(answer) == [("compute", "20 percent of compute short: 40 percent free, 60 percent wanted")]
        (gpu,) = [gpu for gpu in answer["gpus"] if gpu["node"] == first["spec"]["nodeName"]]
        assert (gpu["freeMiB"], gpu["freeComputePercent"]) == (GPU_MIB - 4096, 40)

        cluster.apply(pod(sandbox, "third", 40), namespace)
        sandbox.wait_for_bound(2)
        assert booked(cluster, namespace) == {"first": 60, "third": 40}

        cluster.kube.delete("pods", "first", namespace, grace=0)
        sandbox.wait_for_bound(2)
        second = cluster.get("pods", "second", namespace)
        assert second["metadata"]["annotations"][names.ANNOTATION_GPU_COMPUTE] == "60"
        assert not violations(cluster.kube.list("pods"), cluster.kube.list("nodes"))


def test_who_declares_compute_and_who_declares_none_share_no_gpu(cluster: Cluster, namespace: str) -> None:
    with nodes(cluster, namespace, gpus=1) as sandbox:
        cluster.apply(pod(sandbox, "before"), namespace)
        (before,) = sandbox.wait_for_bound(1)
        assert names.ANNOTATION_GPU_COMPUTE not in before["metadata"]["annotations"]
        cluster.apply(pod(sandbox, "declares", 10), namespace)
        sandbox.wait_for_refusal(
            f"pods that declare no {names.RESOURCE_GPU_COMPUTE} are on every GPU with 4096 MiB free"
        )
        words = f"{namespace}/before there declares no compute, and shares only with pods that declare none"
        assert reasons(why(cluster, namespace, "declares")) == [("undeclared", words)]

        cluster.kube.delete("pods", "before", namespace, grace=0)
        (bound,) = wait_for_names(sandbox, {"declares"})
        cluster.apply(pod(sandbox, "again"), namespace)
        sandbox.wait_for_refusal(f"pods that declare {names.RESOURCE_GPU_COMPUTE} are on every GPU with 4096 MiB free")
        assert bound["metadata"]["annotations"][names.ANNOTATION_GPU_COMPUTE] == "10"


def wait_for_names(sandbox: Sandbox, wanted: set[str]) -> list[Manifest]:
    def there() -> list[Manifest] | Unmet:
        bound = sandbox.bound()
        found = {one["metadata"]["name"] for one in bound}
        return bound if found == wanted else Unmet(sorted(found))

    return wait_until(there, limits.REACTION, f"{sorted(wanted)} to be bound")


def test_compute_that_nobody_can_have_is_refused_by_field_value_and_remedy(cluster: Cluster, namespace: str) -> None:
    with nodes(cluster, namespace, gpus=1) as sandbox:
        compute, memory = names.RESOURCE_GPU_COMPUTE, names.RESOURCE_GPU_MEMORY
        cluster.apply(
            [
                pod(sandbox, "too-much", 101),
                pod(sandbox, "alone", 30, mib=0),
                pod(sandbox, "beside-whole", 30, mib=0, gpus=1),
            ],
            namespace,
        )
        sandbox.wait_for_refusal(f"{compute}: 101 is too much; it counts percent, at most 100")
        sandbox.wait_for_refusal(f"{compute}: 30 without {memory}: name the MiB")
        sandbox.wait_for_refusal(f"{compute}: 30 beside {names.RESOURCE_GPU}: 1: a whole GPU has all its compute")
        assert sandbox.bound() == []


def test_a_killed_extender_comes_back_with_the_compute_that_pods_hold(
    cluster: Cluster, namespace: str, components_running: None
) -> None:
    with nodes(cluster, namespace, gpus=2) as sandbox:
        cluster.apply([pod(sandbox, "a", 70), pod(sandbox, "b", 70)], namespace)
        sandbox.wait_for_bound(2)
        cluster.kill_component("extender")
        cluster.start_component("extender")

        wait_until(
            lambda: booked(cluster, namespace) == {"a": 70, "b": 70}, limits.REACTION, "both bookings of 70 percent"
        )
        cluster.apply([pod(sandbox, "large", 40), pod(sandbox, "small", 30)], namespace)
        sandbox.wait_for_bound(3)
        sandbox.wait_for_refusal("the most compute free on any GPU with the memory is 30 percent")
        assert booked(cluster, namespace) == {"a": 70, "b": 70, "small": 30}
        assert not violations(cluster.kube.list("pods"), cluster.kube.list("nodes"))
