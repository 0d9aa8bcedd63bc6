"""Promise: whatever dies, no GPU is over-committed, no model shares one, and every pod is placed in the end.

Pods of 24 models: slices of one or several GPUs, some on terms, whole GPUs. Pods are deleted at random, GPUs turn
unhealthy and well again, pairs of scheduler and extender, or one of both, are killed every few seconds. The long storm
has 330 pods; HETSERVE_STORM_SECONDS makes it longer, HETSERVE_STORM_SEED makes another one.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
import pytest

from harness import limits
from harness.cluster import Cluster
from harness.failover import ELECTED
from harness.gpu_faults import GpuFaults
from harness.invariant_monitor import InvariantMonitor, watching
from harness.invariants import shares, shares_of
from harness.kube import Manifest
from harness.nodes import INSTANCE_TYPE_LABEL
from harness.sandbox import Sandbox
from harness.waiting import Unmet, wait_until
from hetserve.api.names import (
    ANNOTATION_GPU_SHARING,
    LABEL_MODEL,
    QUEUE_GATE,
    RESOURCE_GPU,
    RESOURCE_GPU_COMPUTE,
    RESOURCE_GPU_MEMORY,
    SCHEDULER_NAME,
)
from hetserve.base.units import Millionths
from hetserve.objects.gpu_sharing import SharingTerms, terms_text
from hetserve.objects.resources import WHOLE_COMPUTE

SHORT: Final = 8.0
LONG: Final = float(os.environ.get("HETSERVE_STORM_SECONDS", "30"))
SEED: Final = int(os.environ.get("HETSERVE_STORM_SEED", "1"))
SIZES: Final = (1024, 2048, 3072, 4096, 6144)
EXTENDERS: Final = ("extender", "extender-standby")
KINDS: Final = ("pair", "pair", "extender", "scheduler")
"""What is killed: both containers of a pod, or one."""
SCHEDULERS: Final = ("scheduler", "scheduler-standby")
KFAULT_EVERY: Final = 3.0
"""Seconds; a new leader needs four to notice the end of the old one."""
DELETE_EVERY: Final = 0.25
FAULT_EVERY: Final = 1.0
FAULT_SECONDS: Final = 6.0


@dataclass(frozen=True)
class Model:
    """Pods that each ask for `mib` of `gpus` GPUs (0: all of it), on nodes of one type. terms: on which they share."""

    name: str
    nodes: str
    replicas: int
    mib: int
    gpus: int = 1
    stateful: bool = False
    gated: bool = True
    terms: SharingTerms | None = None

    def limits(self) -> dict[str, str]:
        memory = {RESOURCE_GPU_MEMORY: str(self.mib)} if self.mib else {}
        compute = {RESOURCE_GPU_COMPUTE: str(WHOLE_COMPUTE)} if self.terms else {}
        return memory | compute | ({RESOURCE_GPU: str(self.gpus)} if self.gpus > 1 or not self.mib else {})

    def annotations(self) -> dict[str, str]:
        return {} if self.terms is None else {ANNOTATION_GPU_SHARING: terms_text(self.terms)}


SLICES: Final = tuple(
    Model(f"model-{number:02}", "slices", 17, SIZES[number % len(SIZES)], stateful=number % 2 == 1)
    for number in range(16)
)
"""On 10 nodes of 8 GPUs; they take two thirds of the memory."""
MIXED: Final = (
    Model("pairs", "mixed", 8, 6144, 2, stateful=True),
    Model("triples", "mixed", 6, 4096, 3),
    Model("whole", "mixed", 8, 0, 1),
    Model("whole-pairs", "mixed", 6, 0, 2, stateful=True),
)
"""On 8 nodes of 8 GPUs, so that some node always has room for any pod.

The tightest is a whole pair: the others touch at most 52 of 64 GPUs.
"""
ON_TERMS: Final = tuple(
    Model(
        f"on-terms-{number}",
        "terms",
        8,
        2048,
        stateful=number % 2 == 1,
        terms=SharingTerms(
            Millionths(550_000),
            Millionths(1_750_000),
            Millionths(900_000),
            tuple((f"on-terms-{other}", Millionths(350_000)) for other in range(4)),
        ),
    )
    for number in range(4)
)
"""On 2 nodes of 8 GPUs: three share a GPU, by pairs alone, so that some GPU always tolerates any pod."""
CROWD: Final = Model("crowd", "mixed", 12, 0, gated=False)
"""More whole GPUs than remain: somebody always waits."""
FEW_SLICES: Final = tuple(replace(model, replicas=8) for model in SLICES)


def workload(model: Model, nodes: str) -> Manifest:
    """Pods of a StatefulSet come back under their old names."""
    labels = {"app": model.name, LABEL_MODEL: model.name}
    pod: dict[str, Any] = {
        "schedulerName": SCHEDULER_NAME,
        "nodeSelector": {INSTANCE_TYPE_LABEL: nodes},
        "terminationGracePeriodSeconds": 1,
        "schedulingGates": [{"name": QUEUE_GATE}] if model.gated else [],
        "containers": [{"name": "model", "image": "none", "resources": {"limits": model.limits()}}],
    }
    spec = {
        "replicas": model.replicas,
        "selector": {"matchLabels": {"app": model.name}},
        "template": {"metadata": {"labels": labels, "annotations": model.annotations()}, "spec": pod},
    }
    if model.stateful:
        spec |= {"podManagementPolicy": "Parallel", "serviceName": model.name}
    kind = "StatefulSet" if model.stateful else "Deployment"
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": model.name}, "spec": spec}


@dataclass
class Storm:
    """Random faults for so many seconds; on a busy machine until there were enough."""

    cluster: Cluster
    namespace: str
    nodes: list[Manifest]
    faults: GpuFaults
    seconds: float
    chance: np.random.Generator = field(default_factory=lambda: np.random.default_rng(SEED))
    deleted: int = 0
    killed: int = 0

    def rage(self) -> None:
        start = time.monotonic()
        next_kill, next_fault = time.monotonic() + KFAULT_EVERY, time.monotonic()
        while (now := time.monotonic()) < start + self.seconds or (self.is_short() and now < start + limits.CROWD):
            self.delete_some()
            if now >= next_fault:
                self.change_health()
                next_fault = now + FAULT_EVERY
            if now >= next_kill:
                self.kill()
                next_kill = now + KFAULT_EVERY
            time.sleep(DELETE_EVERY)
        for fault in self.faults.active:
            self.faults.heal(fault)
        self.cluster.kube.delete("deployments", CROWD.name, self.namespace)

    def is_short(self) -> bool:
        kills, faults = self.seconds / KFAULT_EVERY / 2, self.seconds / FAULT_EVERY / 2
        return self.killed < kills or len(self.faults.history) < faults

    def delete_some(self) -> None:
        """One to three pods, and every other time one with several or whole GPUs."""
        pods = self.cluster.pods(self.namespace)
        few = {model.name for model in MIXED}
        mixed = [pod for pod in pods if pod["metadata"]["labels"]["app"] in few]
        chosen = [pods[number] for number in self.chance.permutation(len(pods))[: self.chance.integers(1, 4)]]
        if mixed and self.chance.random() < 0.5:
            chosen.append(mixed[self.chance.integers(len(mixed))])
        for pod in chosen:
            self.delete(pod)

    def delete(self, pod: Manifest) -> None:
        name = pod["metadata"]["name"]
        self.cluster.kube.delete("pods", name, self.namespace, grace=int(self.chance.integers(0, 2)))
        self.deleted += 1

    def change_health(self) -> None:
        """Heals old faults, then makes a GPU of another node unhealthy and evicts its pods: only its health keeps pods
        away.
        """
        for fault in self.faults.active:
            if self.faults.clock() - fault.since > FAULT_SECONDS:
                self.faults.heal(fault)
        busy = {fault.node for fault in self.faults.active}
        well = [node for node in self.nodes if node["metadata"]["name"] not in busy]
        node, gpu = well[self.chance.integers(len(well))], str(self.chance.integers(8))
        self.faults.inject(node, gpu)
        for pod in self.cluster.pods(self.namespace):
            if any((share.node, share.gpu) == (node["metadata"]["name"], gpu) for share in shares_of(pod)):
                self.delete(pod)

    def kill(self) -> None:
        kind, extender = str(self.chance.choice(KINDS)), str(self.chance.choice(EXTENDERS))
        both = (extender, extender.replace("extender", "scheduler"))
        for name in both if kind == "pair" else [one for one in both if one.startswith(kind)]:
            if self.cluster.running(name):  # a scheduler that lost its Lease has ended
                self.cluster.kill_component(name)
            self.cluster.start_component(name, wait=False)
        self.killed += 1


def ledgers_equal_pods(cluster: Cluster) -> bool | Unmet:
    """The ledgers of leader and standby equal the pods' annotations."""
    held = set(shares(cluster.pods()))
    ledger: set[tuple[str, str, str, int]] = set()
    for port in (cluster.ports.extender_probe, cluster.ports.standby_probe):
        gpus = cluster.probe(port, "/ledger").json()["gpus"]
        ledger = {(pod["uid"], gpu["node"], gpu["gpu"], pod["memoryMiB"]) for gpu in gpus for pod in gpu["pods"]}
        if ledger != held:
            break
    return ledger == held or Unmet({"only in the ledger": ledger - held, "only in the pods": held - ledger})


def caught_up(monitor: InvariantMonitor, pods: list[Manifest]) -> bool | Unmet:
    return monitor.behind(pods) == 0 or Unmet(f"{monitor.behind(pods)} pods behind; wrong so far: {monitor.wrong}")


@pytest.mark.parametrize(
    ("seconds", "slices"),
    [pytest.param(SHORT, FEW_SLICES, id="short"), pytest.param(LONG, SLICES, id="long", marks=pytest.mark.deep)],
)
@pytest.mark.timeout(limits.LONGEST_TEST + 2 * LONG)
def test_no_revision_of_a_storm_over_commits_a_gpu(
    own_cluster: Cluster, namespace: str, seconds: float, slices: tuple[Model, ...]
) -> None:
    models = slices + MIXED + ON_TERMS
    there = sum(model.replicas for model in models)
    cluster = own_cluster
    cluster.install_hetserve(ELECTED)
    for name in (*EXTENDERS, *SCHEDULERS):
        cluster.start_component(name)
    sandbox = Sandbox(cluster, namespace)  # nodes end with the test's own cluster
    sandbox.nodes("slices", count=10, gpus=8)
    sandbox.nodes("mixed", count=8, gpus=8)
    sandbox.nodes("terms", count=2, gpus=8)
    nodes, faults = cluster.kube.list("nodes"), GpuFaults(cluster.kube)
    with watching(cluster.folder.kubeconfig, namespace, nodes, faults) as monitor:
        cluster.apply([workload(model, sandbox.scoped(model.nodes)) for model in (CROWD, *models)], namespace)
        storm = Storm(cluster, namespace, nodes, faults, seconds)
        storm.rage()
        for name in (*EXTENDERS, *SCHEDULERS):
            cluster.start_component(name, wait=False)
            cluster.wait_for_component(name)
        sandbox.wait_for_bound(there, timeout=limits.CROWD)
        wait_until(lambda: ledgers_equal_pods(cluster), limits.ROLLOUT, "both ledgers to equal the pods")
        wait_until(
            lambda: caught_up(monitor, cluster.pods(namespace)), limits.ROLLOUT, "the monitor to see every revision"
        )
    print(
        f"seed {SEED}: {monitor.revisions} revisions, {monitor.judged} verdicts, {monitor.binds} binds, "
        f"{storm.deleted} pods deleted, {storm.killed} extenders killed, {len(faults.history)} GPU faults"
    )

    assert monitor.wrong == []
    assert not storm.is_short(), "no storm: too few kills or GPU faults"
    assert monitor.binds >= there, "the monitor saw nothing"
