"""Promise: apply a service, and it is planned, placed, priced and Ready; delete it, and nothing is left."""

from __future__ import annotations

from typing import Any

from harness import limits
from harness.cluster import Cluster
from harness.sandbox import Sandbox
from harness.waiting import Unmet, wait_until


def two_types(sandbox: Sandbox) -> tuple[str, str]:
    """A GPU type of 4 GPUs at 0.5 $/h and a CPU type of 6 nodes at 0.1 $/h, with a profile each."""
    sandbox.nodes("gpu", count=2, gpus=2)
    sandbox.nodes("cpu", count=6, cpu="2")
    gpu = sandbox.instance_type("gpu", overrides={"spec.price": {"hourly": "0.5"}})
    cpu = sandbox.instance_type(
        "cpu", gpu=False, overrides={"spec.price": {"hourly": "0.1"}, "spec.resources": {"cpu": "1500m"}}
    )
    return gpu, cpu


def max_throughput(sandbox: Sandbox, gpu: str, cpu: str, hourly: str) -> dict[str, Any]:
    """Overrides of a service whose GPU type serves all batches in 300 ms and whose CPU type only small ones."""
    sandbox.profile("rm", gpu, overrides={"spec.latency": {"linear": {"intercept": "10ms", "slope": "0.3ms"}}})
    sandbox.profile("rm", cpu, overrides={"spec.latency": {"linear": {"intercept": "10ms", "slope": "0.8ms"}}})
    return {
        "spec.objective": "MaxThroughput",
        "spec.budget": {"hourly": hourly},
        "spec.load": {"batchSizes": [{"batch": 100, "weight": 49}, {"batch": 900, "weight": 1}]},
    }


def test_a_service_is_planned_placed_priced_and_ready(cluster: Cluster, namespace: str) -> None:
    with Sandbox.cleared(cluster, namespace) as sandbox:
        gpu, cpu = two_types(sandbox)
        sandbox.service("rm", "rm", [gpu, cpu], max_throughput(sandbox, gpu, cpu, "1.0"))

        service = sandbox.ready("rm")

        status = service["status"]
        assert sandbox.counts("rm") == {gpu: 1, cpu: 5}
        assert float(status["plan"]["hourlyCost"]) == 1.0
        assert status["observedGeneration"] == service["metadata"]["generation"]
        assert {i["instanceType"]: (i["desired"], i["bound"], i["ready"]) for i in status["instances"]} == {
            gpu: (1, 1, 1),
            cpu: (5, 5, 5),
        }
        # One instance per CPU node: the type's resources fill it.
        nodes = [pod["spec"]["nodeName"] for pod in sandbox.bound()]
        assert len(set(nodes)) == len(nodes) == 6
        row = cluster.kubectl("get", "hisvc", "rm", "--namespace", namespace, "--no-headers").split()
        assert row[:4] == ["rm", "rm", "350ms", "6/6"]
        assert row[4] == status["plan"]["summary"] == f"1x{gpu}+5x{cpu}" or row[4] == f"5x{cpu}+1x{gpu}"
        assert "condition met" in cluster.kubectl(
            "wait", "--for=condition=Ready", "hisvc", "--all", "--namespace", namespace, "--timeout=10s"
        )


def test_the_device_reaches_the_container_through_the_pods_annotation(cluster: Cluster, namespace: str) -> None:
    with Sandbox.cleared(cluster, namespace) as sandbox:
        gpu, cpu = two_types(sandbox)
        sandbox.service("rm", "rm", [gpu, cpu], max_throughput(sandbox, gpu, cpu, "0.5"))
        sandbox.ready("rm")

        (pod,) = sandbox.bound()

        (container,) = pod["spec"]["containers"]
        (env,) = (e for e in container["env"] if e["name"] == "NVIDIA_VISIBLE_DEVICES")
        assert env["valueFrom"]["fieldRef"]["fieldPath"] == "metadata.annotations['hetserve.io/gpu']"
        assert pod["metadata"]["annotations"]["hetserve.io/gpu"] in ("0", "1")
        assert pod["metadata"]["annotations"]["hetserve.io/gpu-memory"] == "16384", "no gpuMemory: the whole GPU"


def test_a_smaller_budget_is_replanned_and_a_larger_one_too(cluster: Cluster, namespace: str) -> None:
    with Sandbox.cleared(cluster, namespace) as sandbox:
        gpu, cpu = two_types(sandbox)
        sandbox.service("rm", "rm", [gpu, cpu], max_throughput(sandbox, gpu, cpu, "1.0"))
        sandbox.ready("rm")

        for hourly, wanted in (("0.7", {gpu: 1, cpu: 2}), ("1.1", {gpu: 1, cpu: 6})):
            sandbox.edit("rm", {"spec": {"budget": {"hourly": hourly}}})
            service = sandbox.ready("rm")
            assert sandbox.counts("rm") == wanted
            assert float(service["status"]["plan"]["hourlyCost"]) <= float(hourly)
            assert len(sandbox.bound()) == sum(wanted.values())


def test_a_dearer_instance_type_is_replanned(cluster: Cluster, namespace: str) -> None:
    with Sandbox.cleared(cluster, namespace) as sandbox:
        gpu, cpu = two_types(sandbox)
        sandbox.service("rm", "rm", [gpu, cpu], max_throughput(sandbox, gpu, cpu, "1.0"))
        sandbox.ready("rm")

        cluster.kube.patch("instancetypes", cpu, {"spec": {"price": {"hourly": "0.25"}}})

        def replanned() -> bool | Unmet:
            counts = sandbox.counts("rm")
            return counts.get(cpu, 0) < 5 or Unmet(counts)

        wait_until(replanned, limits.REACTION, "a plan at the new price")
        service = sandbox.ready("rm")
        counts = sandbox.counts("rm")
        cost = 0.5 * counts[gpu] + 0.25 * counts.get(cpu, 0)
        assert float(service["status"]["plan"]["hourlyCost"]) == cost <= 1.0


def test_nothing_is_left_of_a_deleted_service(cluster: Cluster, namespace: str) -> None:
    with Sandbox.cleared(cluster, namespace) as sandbox:
        gpu, cpu = two_types(sandbox)
        sandbox.service("rm", "rm", [gpu, cpu], max_throughput(sandbox, gpu, cpu, "1.0"))
        sandbox.ready("rm")

        cluster.kube.delete("inferenceservices", "rm", namespace)

        # The garbage collector looks for new kinds every 30 s; before that it does not know ours as an owner.
        sandbox.wait_for_pods_gone(timeout=limits.ROLLOUT)
        assert cluster.kube.list("deployments", namespace) == []
        assert cluster.kube.list("replicasets", namespace) == []
        mine = {g["node"]: g["pods"] for g in cluster.ledger()["gpus"] if gpu in g["node"] or namespace in g["node"]}
        assert mine, "the ledger knows the test's nodes"
        assert all(pods == [] for pods in mine.values())
