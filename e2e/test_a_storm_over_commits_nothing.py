"""Promise: whatever dies, and whenever, no GPU is over-committed, no model shares one, and all is placed in the end.

300 pods of 20 models, pods deleted at random (those of StatefulSets come back under their names), extenders
killed every few seconds. HETSERVE_STORM_SECONDS makes it longer, HETSERVE_STORM_SEED another one.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pytest

from harness.cluster import Cluster
from harness.kube import Manifest
from harness.lab import Lab
from harness.nodes import INSTANCE_TYPE_LABEL
from harness.waiting import Unmet, wait_until
from harness.witness import Witness, watching
from hetserve.api.names import LABEL_MODEL, QUEUE_GATE, RESOURCE_GPU_MEMORY, SCHEDULER_NAME
from hetserve.testing.cluster import gpu_node, gpu_pod

SECONDS: Final = float(os.environ.get("HETSERVE_STORM_SECONDS", "20"))
SEED: Final = int(os.environ.get("HETSERVE_STORM_SEED", "1"))
MODELS: Final = 20
REPLICAS: Final = 15
SIZES: Final = (1024, 2048, 3072, 4096, 6144)
EXTENDERS: Final = ("extender", "extender-standby")
KILL_EVERY: Final = 3.0
"""Seconds; a new leader needs three to know that the old one is gone."""
DELETE_EVERY: Final = 0.25


def workload(number: int, nodes: str) -> Manifest:
    """A Deployment or, every other time, a StatefulSet, whose pods come back under their old names."""
    name, stateful = f"model-{number:02}", number % 2 == 1
    labels = {"app": name, LABEL_MODEL: name}
    limits = {RESOURCE_GPU_MEMORY: str(SIZES[number % len(SIZES)])}
    pod: dict[str, Any] = {
        "schedulerName": SCHEDULER_NAME,
        "nodeSelector": {INSTANCE_TYPE_LABEL: nodes},
        "terminationGracePeriodSeconds": 1,
        "schedulingGates": [{"name": QUEUE_GATE}],
        "containers": [{"name": "model", "image": "none", "resources": {"limits": limits}}],
    }
    spec = {
        "replicas": REPLICAS,
        "selector": {"matchLabels": {"app": name}},
        "template": {"metadata": {"labels": labels}, "spec": pod},
    }
    if stateful:
        spec |= {"podManagementPolicy": "Parallel", "serviceName": name}
    kind = "StatefulSet" if stateful else "Deployment"
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def storm(cluster: Cluster, lab: Lab, chance: np.random.Generator) -> tuple[int, int]:
    """Delete pods and kill extenders until the time is over; (pods deleted, extenders killed)."""
    deleted = killed = 0
    end, next_kill = time.monotonic() + SECONDS, time.monotonic() + KILL_EVERY
    while (now := time.monotonic()) < end:
        pods = cluster.pods(lab.namespace)
        for number in chance.permutation(len(pods))[: chance.integers(1, 4)]:
            name = pods[number]["metadata"]["name"]
            cluster.kube.delete("pods", name, lab.namespace, grace=int(chance.integers(0, 2)))
            deleted += 1
        if now >= next_kill:
            name = str(chance.choice(EXTENDERS))
            cluster.kill_component(name)
            cluster.start_component(name, wait=False)
            killed, next_kill = killed + 1, now + KILL_EVERY
        time.sleep(DELETE_EVERY)
    return deleted, killed


def held(pods: list[Manifest]) -> Iterator[tuple[str, str, str, int]]:
    """(UID, node, GPU, MiB) of the pods by their own annotations: this test's account."""
    for pod in pods:
        annotations = pod["metadata"].get("annotations", {})
        if pod["spec"].get("nodeName") and pod["status"].get("phase") not in ("Succeeded", "Failed"):
            mib = int(annotations["hetserve.io/gpu-memory"])
            yield pod["metadata"]["uid"], pod["spec"]["nodeName"], annotations["hetserve.io/gpu"], mib


def ledgers_equal_pods(cluster: Cluster) -> bool | Unmet:
    """The leader's ledger and the standby's, against this test's account."""
    account = set(held(cluster.pods()))
    ledger: set[tuple[str, str, str, int]] = set()
    for port in (cluster.ports.extender_probe, cluster.ports.standby_probe):
        gpus = cluster.probe(port, "/ledger").json()["gpus"]
        ledger = {(pod["uid"], gpu["node"], gpu["gpu"], pod["memoryMiB"]) for gpu in gpus for pod in gpu["pods"]}
        if ledger != account:
            break
    return ledger == account or Unmet({"only in the ledger": ledger - account, "only in the pods": account - ledger})


def caught_up(witness: Witness, pods: list[Manifest]) -> bool | Unmet:
    return witness.behind(pods) == 0 or Unmet(f"{witness.behind(pods)} pods behind; wrong so far: {witness.wrong}")


@pytest.mark.timeout(300 + 2 * SECONDS)
def test_no_revision_of_a_storm_over_commits_a_gpu(own_cluster: Cluster, namespace: str) -> None:
    cluster = own_cluster
    cluster.install_hetserve()
    cluster.start_component("extender-standby")
    lab = Lab(cluster, namespace)  # the cluster is the test's own: its nodes end with it
    lab.nodes("storm", count=10, gpus=8)
    nodes = cluster.kube.list("nodes")
    with watching(cluster.folder.kubeconfig, namespace, nodes) as witness:
        cluster.apply([workload(number, lab.scoped("storm")) for number in range(MODELS)], namespace)
        deleted, killed = storm(cluster, lab, np.random.default_rng(SEED))
        for name in EXTENDERS:
            cluster.wait_for_component(name)
        lab.wait_for_bound(MODELS * REPLICAS, timeout=120)
        wait_until(lambda: ledgers_equal_pods(cluster), 90, "both ledgers to equal the pods")
        wait_until(lambda: caught_up(witness, cluster.pods(namespace)), 60, "the witness to have seen it all")
    print(
        f"seed {SEED}: {witness.revisions} revisions, {witness.judged} verdicts, {witness.binds} binds, "
        f"{deleted} pods deleted, {killed} extenders killed"
    )

    assert witness.wrong == []
    assert killed >= SECONDS / KILL_EVERY / 2
    assert witness.binds >= MODELS * REPLICAS, "the witness saw nothing"


def test_the_witness_sees_an_over_commit_between_two_good_revisions() -> None:
    witness = Witness([gpu_node("n0", gpus=1, memory_mib=8000)])
    first, second = (gpu_pod(name, node="n0", gpu="0", memory_mib=5000, model=name) for name in "ab")
    for kind, pod, revision in (("ADDED", first, 1), ("ADDED", second, 2), ("DELETED", second, 3)):
        pod["metadata"]["resourceVersion"] = str(revision)
        witness.take(kind, pod)

    assert witness.wrong == ["revision 2: GPU 0 of node n0 is over-committed: 10000 of 8000 MiB"]


def test_the_witness_sees_a_pod_that_moves_and_one_without_a_gpu() -> None:
    witness = Witness([gpu_node("n0", gpus=2)])
    for revision, gpu in enumerate(("0", "1", None), start=1):
        pod = gpu_pod("p", uid="other" if gpu is None else "p", node="n0", gpu=gpu, model=None)
        pod["metadata"]["resourceVersion"] = str(revision)
        witness.take("MODIFIED", pod)

    assert witness.wrong == [
        "pod p moved from ('n0', '0') to ('n0', '1')",
        "pod p is bound to n0 without a GPU",
        "revision 3: pod default/p runs on 1 GPUs of node n0, and its annotation names 0",
    ]
