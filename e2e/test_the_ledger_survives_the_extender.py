"""Promise: a killed extender comes back with the ledger that the pods' annotations add up to."""

from __future__ import annotations

from harness import limits
from harness.cluster import Cluster
from harness.sandbox import Sandbox
from harness.waiting import Unmet, wait_until


def ledger_by_gpu(cluster: Cluster) -> dict[tuple[str, str], dict[str, int]]:
    """What the extender believes: MiB by pod UID for every GPU that somebody holds."""
    return {
        (gpu["node"], gpu["gpu"]): {pod["uid"]: pod["memoryMiB"] for pod in gpu["pods"]}
        for gpu in cluster.ledger()["gpus"]
        if gpu["pods"]
    }


def annotations_by_gpu(cluster: Cluster) -> dict[tuple[str, str], dict[str, int]]:
    """The test's own sum over raw pod annotations."""
    found: dict[tuple[str, str], dict[str, int]] = {}
    for pod in cluster.pods():
        annotations = pod["metadata"].get("annotations", {})
        if "hetserve.io/gpu" not in annotations or pod["status"].get("phase") in ("Succeeded", "Failed"):
            continue
        held = found.setdefault((pod["spec"]["nodeName"], annotations["hetserve.io/gpu"]), {})
        held[pod["metadata"]["uid"]] = int(annotations["hetserve.io/gpu-memory"])
    return found


def wait_for_equal_accounts(cluster: Cluster) -> None:
    def equal() -> bool | Unmet:
        ledger, annotations = ledger_by_gpu(cluster), annotations_by_gpu(cluster)
        return ledger == annotations or Unmet({"ledger": str(ledger), "pods": str(annotations)})

    wait_until(equal, limits.REACTION, "the ledger to equal the sum over the pods' annotations")


def test_a_killed_extender_rebuilds_its_ledger_from_the_pods(
    cluster: Cluster, namespace: str, components_running: None
) -> None:
    with Sandbox.cleared(cluster, namespace) as sandbox:
        sandbox.nodes("small", count=3, gpus=2)
        for model, replicas, mib in (("a", 6, 3000), ("b", 4, 5000), ("c", 2, 8000)):
            sandbox.deployment(model, "small", replicas=replicas, mib=mib, model=model)
        sandbox.wait_for_bound(12)
        wait_for_equal_accounts(cluster)
        before = ledger_by_gpu(cluster)

        cluster.kill_component("extender")
        deleted = sandbox.bound("app=b")[0]["metadata"]  # gone while nobody watched
        cluster.kube.delete("pods", deleted["name"], namespace, grace=0)
        cluster.start_component("extender")

        wait_for_equal_accounts(cluster)
        sandbox.wait_for_bound(12)
        wait_for_equal_accounts(cluster)
        after = ledger_by_gpu(cluster)
        kept = {uid: gpu for gpu, pods in before.items() for uid in pods if uid != deleted["uid"]}
        now = {uid: gpu for gpu, pods in after.items() for uid in pods}
        assert all(now[uid] == gpu for uid, gpu in kept.items()), "a restart moved a running pod's booking"


def test_pods_wait_for_the_extender_and_are_placed_when_it_is_back(
    cluster: Cluster, namespace: str, components_running: None
) -> None:
    with Sandbox.cleared(cluster, namespace) as sandbox:
        sandbox.nodes("small", count=1, gpus=2)
        cluster.kill_component("extender")
        sandbox.deployment("waiting", "small", replicas=2, mib=4096, model="waiting", gated=False)
        sandbox.wait_for_refusal("connection refused")
        assert sandbox.bound() == [], "a GPU pod bound without the extender has no device"

        cluster.start_component("extender")

        sandbox.wait_for_bound(2)
