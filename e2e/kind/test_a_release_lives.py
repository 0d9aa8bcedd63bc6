"""Promise: upgrade, rollback, uninstallation and reinstallation lose no pod, double none and over-commit no GPU."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest

from harness import limits, previous
from harness.arrivals import AFTER, BEFORE, Arrivals, arriving, pod
from harness.invariants import broken, capacities, shares
from harness.kind import IN_PODS, KindCluster
from harness.kube import Manifest, is_true
from harness.nodes import INSTANCE_TYPE_LABEL, Gpus, NodeGroup
from harness.one_type import service_on
from harness.waiting import Unmet, always, wait_until
from hetserve.api.names import LABEL_MODEL, QUEUE_GATE, SYSTEM_NAMESPACE

GOAL: Final = 10.0
"""Seconds without a binding while pods arrive."""
OF_ONE_PROTOCOL: Final = 5.0
"""The same, in an update of today's chart: each old scheduler releases its Lease, and none waits for it to run out."""
PER_SECOND: Final = 5.0
MIB: Final = 512
NODES: Final = NodeGroup("life", "life", 5, cpu="250", memory="999Gi", gpus=Gpus("Tesla-T4", 15360, 8), pods=250)
ONE_GPU: Final = NodeGroup("one", "one", 1, cpu="16", memory="64Gi", gpus=Gpus("Tesla-T4", 15360, 1))
WHERE: Final = {INSTANCE_TYPE_LABEL: "life"}
OTHERS_GATE: Final = "example.com/hold"
HELD: Final = 12
BESIDE: Final = 20
"""Pods that ask for GPUs before an uninstallation, and again after it."""
PODS: Final = ("operator", "scheduler")
"""Sections of the values that speak of pods."""


@pytest.fixture
def life(bare_kind: KindCluster) -> Iterator[KindCluster]:
    yield from with_nodes(bare_kind)
    bare_kind.clear()


@pytest.fixture
def today(kind: KindCluster) -> Iterator[KindCluster]:
    yield from with_nodes(kind)


@pytest.fixture
def end(ending_kind: KindCluster) -> Iterator[KindCluster]:
    yield from with_nodes(ending_kind)


def with_nodes(kind: KindCluster) -> Iterator[KindCluster]:
    kind.add_nodes(NODES, ONE_GPU)
    yield kind
    kind.remove_nodes(NODES, ONE_GPU)


def serve(kind: KindCluster, namespace: str) -> set[str]:
    """Applies a service of one instance and waits until it is Ready. Returns the UIDs of its pods."""
    kind.kube.apply_all(service_on("life", namespace, qps=4))

    def ready() -> bool | Unmet:
        found = kind.kube.get("inferenceservices", "rm", namespace)
        return is_true(found, "Ready") or Unmet(found.get("status"))

    wait_until(ready, limits.ROLLOUT, "the service to be Ready")
    return of_the_service(kind, namespace)


def of_the_service(kind: KindCluster, namespace: str) -> set[str]:
    return uids(kind.kube.list("pods", namespace, labels="hetserve.io/service=rm"))


def uids(pods: list[Manifest]) -> set[str]:
    """UIDs of pods, but for those that end."""
    return {each["metadata"]["uid"] for each in pods if not each["metadata"].get("deletionTimestamp")}


def gated(kind: KindCluster, namespace: str) -> list[str]:
    """Names of the pods that wait at our gate."""
    return [
        each["metadata"]["name"]
        for each in kind.pods(namespace)
        if any(gate["name"] == QUEUE_GATE for gate in each["spec"].get("schedulingGates", []))
    ]


def hold(kind: KindCluster, namespace: str) -> list[str]:
    """Makes pods that another's gate keeps at ours. Returns their names."""
    names = [f"held-{number}" for number in range(HELD)]
    for name in names:
        kind.kube.create(pod(name, namespace, MIB, WHERE, OTHERS_GATE, QUEUE_GATE))
    return names


def let_go(kind: KindCluster, namespace: str, names: list[str]) -> None:
    """Lifts the other's gate, which leaves ours."""
    for name in names:
        kind.kube.patch("pods", name, [{"op": "remove", "path": "/spec/schedulingGates/0"}], namespace)


def placed(kind: KindCluster, namespace: str, names: list[str], seconds: float) -> None:
    def bound() -> bool | Unmet:
        waiting = [
            each["metadata"]["name"]
            for each in kind.pods(namespace)
            if each["metadata"]["name"] in names and not each["spec"].get("nodeName")
        ]
        return not waiting or Unmet(waiting)

    wait_until(bound, seconds, "what was held to be bound")


def of_a_model(kind: KindCluster, namespace: str) -> None:
    """Makes a pod of model `resnet50`, for the node with one GPU."""
    made = pod("resnet50", namespace, MIB, {INSTANCE_TYPE_LABEL: "one"})
    made["metadata"]["labels"] = {LABEL_MODEL: "resnet50"}
    kind.kube.create(made)


def refused(kind: KindCluster, namespace: str) -> bool | Unmet:
    """Whether the scheduler has found no place for that pod, as its model is there."""
    conditions = kind.kube.get("pods", "resnet50", namespace)["status"].get("conditions") or []
    return any("same model" in one.get("message", "") for one in conditions) or Unmet(conditions)


def schema(kind: KindCluster, plural: str) -> Any:
    return kind.kube.get("customresourcedefinitions", f"{plural}.hetserve.io")["spec"]["versions"][0]


def step(kind: KindCluster, arrivals: Arrivals, what: str, do: Callable[[], None]) -> float:
    """Does something that replaces every pod of the release while pods arrive, until those of before are gone.

    Returns the longest time without a binding, which it prints.
    """
    before = {each["metadata"]["uid"] for each in kind.pods(SYSTEM_NAMESPACE)}

    def ended() -> bool | Unmet:
        left = [each["metadata"]["name"] for each in kind.pods(SYSTEM_NAMESPACE) if each["metadata"]["uid"] in before]
        return not left or Unmet(left)

    arrivals.go_on(BEFORE)
    began = time.monotonic()
    do()
    done = time.monotonic()
    wait_until(ended, limits.ROLLOUT, "the pods of before to end")
    arrivals.go_on(AFTER)
    gap = arrivals.gap(began)
    print(f"{what}: {done - began:.1f} s, no binding for {gap:.1f} s at most")
    return gap


def versions(kind: KindCluster) -> set[str]:
    """Tags of the images that operator and extender run."""
    alive = [each for each in kind.pods(SYSTEM_NAMESPACE) if not each["metadata"].get("deletionTimestamp")]
    containers = [one for each in alive for one in each["spec"]["containers"] if one["name"] in IN_PODS]
    return {one["image"].rpartition(":")[2] for one in containers}


def test_an_upgrade_and_its_rollback_lose_nothing_while_pods_arrive(
    life: KindCluster, tenant: str, other_tenant: str
) -> None:
    life.install(earlier=True)
    earlier = schema(life, "instancetypes")
    assert versions(life) == {previous.VERSION}
    serving = serve(life, tenant)
    held = hold(life, tenant)
    of_a_model(life, tenant)
    placed(life, tenant, ["resnet50"], 60)
    of_a_model(life, other_tenant)
    wait_until(
        lambda: refused(life, other_tenant), limits.ROLLOUT, "a model to keep off another namespace's, as it did then"
    )

    with arriving(life.kubeconfig, tenant, per_second=PER_SECOND, mib=MIB, node_labels=WHERE) as arrivals:
        upgrade = step(life, arrivals, "upgrade", life.upgrade)
        assert previous.VERSION not in versions(life)
        assert schema(life, "instancetypes") != earlier, "the CRDs follow the chart"
        assert sorted(gated(life, tenant))[:1], "what waits at the gate goes on waiting"
        placed(life, other_tenant, ["resnet50"], 60)  # a model is of its namespace now
        beside = [each["metadata"]["uid"] for each in life.pods(other_tenant)]
        back = step(life, arrivals, "rollback", life.rollback)
        assert versions(life) == {previous.VERSION}
        assert schema(life, "instancetypes") == earlier
        assert [each["metadata"]["uid"] for each in life.pods(other_tenant)] == beside
        let_go(life, tenant, held)
        placed(life, tenant, held, 120)
        arrivals.check()
        print(f"{len(arrivals.created)} pods arrived; the longest waited {arrivals.longest_wait():.1f} s")

    assert of_the_service(life, tenant) == serving, "the service's instances ran on"
    found = life.kube.get("inferenceservices", "rm", tenant)
    assert is_true(found, "Ready"), (found["status"], life.kube.list("pods", tenant, labels="hetserve.io/service=rm"))
    assert max(upgrade, back) < GOAL


def test_an_upgrade_that_changes_every_pod_of_todays_release_hardly_pauses_placement(
    today: KindCluster, tenant: str
) -> None:
    before = uids(today.pods(SYSTEM_NAMESPACE))
    assert before
    changed = {"podAnnotations": {"example.com/changed": tenant}}
    with arriving(today.kubeconfig, tenant, per_second=PER_SECOND, mib=MIB, node_labels=WHERE) as arrivals:
        gap = step(today, arrivals, "upgrade", lambda: today.upgrade(dict.fromkeys(PODS, changed)))
        arrivals.check()
    assert before.isdisjoint(uids(today.pods(SYSTEM_NAMESPACE)))
    assert gap < OF_ONE_PROTOCOL


def test_an_uninstallation_frees_who_waits_and_a_reinstallation_takes_the_ledger_up(
    end: KindCluster, tenant: str
) -> None:
    serving = serve(end, tenant)
    held = hold(end, tenant)
    names = [f"before-{number}" for number in range(BESIDE)]
    for name in names:
        end.kube.create(pod(name, tenant, MIB, WHERE))
    placed(end, tenant, names, 90)
    before = set(shares(end.pods(tenant)))
    assert sorted(gated(end, tenant)) == sorted(held)

    end.uninstall()

    assert gated(end, tenant) == [], "nobody waits for a queue that is gone"
    wait_until(lambda: not end.pods(SYSTEM_NAMESPACE), limits.ROLLOUT, "hetserve's pods to be gone")
    assert end.kube.get("inferenceservices", "rm", tenant)["spec"]["model"]["name"] == "rm"
    assert of_the_service(end, tenant) == serving
    assert set(shares(end.pods(tenant))) == before

    end.install()
    let_go(end, tenant, held)
    more = [f"after-{number}" for number in range(BESIDE)]
    for name in more:
        end.kube.create(pod(name, tenant, MIB, WHERE))
    placed(end, tenant, held + more, 90)

    pods = end.pods(tenant)
    assert before <= set(shares(pods)), "who held a GPU holds it still"
    assert broken(pods, capacities(end.kube.list("nodes", labels="nvidia.com/gpu.count"))) == []
    assert of_the_service(end, tenant) == serving
    always(lambda: is_true(end.kube.get("inferenceservices", "rm", tenant), "Ready"), 2, "the service is Ready")
