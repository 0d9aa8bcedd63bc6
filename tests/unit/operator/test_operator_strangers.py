"""Ownership decides what belongs to a service, not labels; stranger pods are reported."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from hetserve.api import names
from hetserve.reconcile.deployments.build import deployment_name
from hetserve_operator.workqueue import Key
from operator_scene import CPU_DEPLOYMENT, GPU_DEPLOYMENT, PLANNED, SERVICE, converged, deployment_path
from testing.builders import service
from testing.operator import SimulatedOperator
from testing.scenes import CPU_TYPE, GPU_TYPE, rm2_scene

Json = dict[str, Any]
LABELS = {names.LABEL_SERVICE: "rm2", names.LABEL_INSTANCE_TYPE: GPU_TYPE, names.LABEL_MODEL: "rm2"}


def replica_set(name: str, labels: Json, owner: Json | None = None) -> Json:
    metadata: Json = {"name": name, "namespace": "default", "labels": labels}
    if owner is not None:
        metadata["ownerReferences"] = [{**owner, "controller": True}]
    return {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": metadata, "spec": {}}


def pod(name: str, owner: Json | None = None) -> Json:
    metadata: Json = {"name": name, "namespace": "default", "labels": LABELS}
    if owner is not None:
        metadata["ownerReferences"] = [{**owner, "controller": True}]
    spec = {"containers": [{"name": "model", "image": "x"}], "nodeSelector": {"nowhere": "true"}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": {}}


def _of_a_replica_set(labels: Json, name: str = "theirs") -> Callable[[SimulatedOperator], Json]:
    def make(sim: SimulatedOperator) -> Json:
        sim.add(replica_set(name, labels))
        uid = _uid(sim, f"/apis/apps/v1/namespaces/default/replicasets/{name}")
        return pod(f"{name}-1", {"kind": "ReplicaSet", "name": name, "uid": uid})

    return make


def _uid(sim: SimulatedOperator, path: str) -> str:
    return str(sim.api.objects[path]["metadata"]["uid"])


STRANGERS: dict[str, Callable[[SimulatedOperator], Json]] = {
    "nobody's": lambda _: pod("alone"),
    "a node's": lambda sim: pod("mirror", {"kind": "Node", "name": "gpu-0", "uid": _uid(sim, "/api/v1/nodes/gpu-0")}),
    "a ReplicaSet's with our labels": _of_a_replica_set(LABELS),
    "a ReplicaSet's without our labels": _of_a_replica_set({"app": "theirs"}),
    "one's of our name that has lost our labels": _of_a_replica_set({}, f"{GPU_DEPLOYMENT}-theirs"),
}


@pytest.mark.parametrize("whose", STRANGERS)
async def test_a_pod_that_only_carries_our_labels_counts_for_nothing_and_is_named(whose: str) -> None:
    sim = await converged()
    before = sim.condition("WithinBudget")["message"]
    stranger = STRANGERS[whose](sim)
    sim.add(stranger)
    await sim.converge()
    assert sim.condition("Ready")["status"] == "True", "it blocks Ready"
    assert sim.condition("WithinBudget")["message"] == before, "it spends the budget"
    owned = sim.condition("PodsOwned")
    assert (owned["status"], owned["reason"]) == ("False", "StrangerPods")
    assert stranger["metadata"]["name"] in owned["message"]
    assert [e["reason"] for _, e in sim.api.items("events")].count("StrangerPods") == 1
    assert sim.replicas() == PLANNED
    sim.api.remove(f"/api/v1/namespaces/default/pods/{stranger['metadata']['name']}")
    await sim.converge()
    assert sim.condition("PodsOwned")["status"] == "True"


async def test_a_new_plan_does_not_wait_for_the_budget_of_strangers() -> None:
    sim = SimulatedOperator()
    sim.add(*rm2_scene(), *(pod(f"alone-{i}") for i in range(20)))
    await sim.converge()
    assert sim.replicas() == PLANNED, "twenty strangers spend the budget for ever"


async def test_a_stranger_on_a_node_takes_its_room_as_any_other_pod_does() -> None:
    sim = SimulatedOperator()
    sim.add(*rm2_scene(gpu_nodes=1, cpu_nodes=0, overrides={"spec.budget.hourly": "0.6"}))
    held = pod("alone")
    held["spec"]["nodeName"] = "gpu-0"
    held["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "4"}}
    sim.add(held)
    await sim.converge()
    assert sim.service()["status"]["reason"] == "CapacityTooLow"


async def test_pods_of_a_deployment_that_was_deleted_are_paid_until_they_are_gone() -> None:
    sim = await converged()
    sim.cluster.terminating_ticks = 8
    sim.api.remove(deployment_path(CPU_DEPLOYMENT))
    seen = []
    for _ in range(12):
        await sim.round()
        seen.append((len(sim.cluster.pods()), sim.condition("PodsOwned")["status"]))
    assert max(count for count, _ in seen) == 9, "successors beside pods that are not gone cost more than the budget"
    assert {status for _, status in seen} == {"True"}, "what a Deployment left behind is no stranger"


def orphaned(sim: SimulatedOperator) -> None:
    """`kubectl delete hisvc rm2 --cascade=orphan`, once the garbage collector has been there."""
    sim.api.remove(SERVICE)
    for _, raw in sim.api.items("deployments"):
        raw["metadata"].pop("ownerReferences")
        sim.api.touch(deployment_path(raw["metadata"]["name"]))


def cost_of(sim: SimulatedOperator) -> int:
    """Of all pods, in thousandths of a dollar per hour."""
    prices = {GPU_TYPE: 526, CPU_TYPE: 149}
    return sum(prices[p["metadata"]["labels"][names.LABEL_INSTANCE_TYPE]] for _, p in sim.cluster.pods())


async def test_orphans_of_an_earlier_service_are_adopted_where_the_plan_holds_them_and_else_removed() -> None:
    sim = await converged()
    orphaned(sim)
    before = {path for path, p in sim.cluster.pods() if p["metadata"]["labels"][names.LABEL_INSTANCE_TYPE] == GPU_TYPE}
    mix = {"spec.load.batchSizes": [{"batch": 20, "weight": 98}, {"batch": 500, "weight": 2}]}
    sim.add(service("rm2", {**mix, "spec.instanceTypes": {"names": [GPU_TYPE]}, "spec.planner": "kairos"}))
    await sim.converge()
    assert sim.replicas() == {GPU_DEPLOYMENT: 4}, "orphans of types outside the plan spend the budget for ever"
    assert before < {path for path, _ in sim.cluster.pods()}, "what is adopted runs on"
    assert sim.condition("Ready")["status"] == "True"
    notes = {e["reason"]: e["note"] for _, e in sim.api.items("events")}
    assert GPU_DEPLOYMENT in notes["OrphanAdopted"]
    assert CPU_DEPLOYMENT in notes["OrphanRemoved"]


@pytest.mark.parametrize("labels", [[names.LABEL_SERVICE], None])
async def test_a_deployment_that_loses_its_labels_keeps_its_pods_between_any_two_writes(
    labels: list[str] | None,
) -> None:
    sim = await converged()
    before = {path for path, _ in sim.cluster.pods()}
    path = deployment_path(CPU_DEPLOYMENT)
    gone = dict.fromkeys(labels or sim.api.objects[path]["metadata"]["labels"])
    kept = {k: v for k, v in sim.api.objects[path]["metadata"]["labels"].items() if k not in gone}
    sim.edit(path, lambda d: d["metadata"].update(labels=kept))
    sim.api.after.append(lambda *_: sim.cluster.tick())
    await sim.converge()
    assert {path for path, _ in sim.cluster.pods()} == before, "running instances are killed for a label"
    assert sim.api.objects[path]["metadata"]["labels"][names.LABEL_SERVICE] == "rm2"


async def test_a_deployment_without_labels_and_pods_is_found_by_its_name() -> None:
    sim = await converged()
    path = deployment_path(CPU_DEPLOYMENT)
    sim.edit(path, lambda d: d["metadata"].update(labels={}))
    for pod_path, found in sim.cluster.pods(sim.api.objects[path]):
        del found
        sim.api.remove(pod_path)
    sim.api.after.append(lambda *_: sim.cluster.tick())
    await sim.converge()
    assert sim.replicas() == PLANNED
    assert sim.condition("Ready")["status"] == "True"


async def test_a_deployment_of_our_name_and_label_that_hetserve_did_not_make_is_not_adopted() -> None:
    sim = SimulatedOperator()
    sim.add(*rm2_scene())
    meta = {"name": GPU_DEPLOYMENT, "namespace": "default", "labels": LABELS}
    selector = {"matchLabels": {names.LABEL_INSTANCE_TYPE: GPU_TYPE}}
    template = {"metadata": {"labels": LABELS}, "spec": {"containers": [{"name": "theirs", "image": "t"}]}}
    spec = {"replicas": 1, "selector": selector, "template": template}
    sim.add({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": spec})
    await sim.converge()
    assert sim.api.objects[deployment_path(GPU_DEPLOYMENT)]["spec"] == spec
    ready = sim.condition("Ready")
    assert (ready["reason"], GPU_DEPLOYMENT in ready["message"]) == ("WriteRefused", True)


async def test_an_orphan_that_has_lost_our_record_is_counted_and_taken_in_all_the_same() -> None:
    sim = await converged()
    orphaned(sim)
    for _, raw in sim.api.items("deployments"):
        raw["metadata"]["annotations"].clear()
    sim.add(service("rm2", {"spec.instanceTypes": {"names": [GPU_TYPE]}, "spec.planner": "kairos"}))
    for _ in range(10):
        await sim.round()
        assert cost_of(sim) <= 2500
    assert sim.replicas() == {GPU_DEPLOYMENT: 4}


async def test_orphans_over_the_budget_are_cut_while_the_template_is_refused() -> None:
    sim = await converged()
    orphaned(sim)
    sim.add(service("rm2", {"spec.budget.hourly": "1.0", "spec.planner": "kairos"}))
    sim.edit(SERVICE, lambda s: s["spec"]["template"]["spec"]["containers"][0].update(imagee="x"))
    await sim.converge()
    assert cost_of(sim) <= 1000
    assert sim.service()["status"]["reason"] == "TemplateInvalid"


async def test_a_service_made_anew_waits_for_what_its_predecessor_left_and_is_not_stalled() -> None:
    sim = await converged()
    sim.api.remove(SERVICE)
    sim.add(*rm2_scene())
    await sim.look(Key("default", "rm2"))  # before the garbage collector has been there
    await sim.look(Key("default", "rm2"))
    stalled, reconciling = sim.condition("Stalled"), sim.condition("Reconciling")
    assert (stalled["status"], reconciling["status"]) == ("False", "True")
    assert not [e for _, e in sim.api.items("events") if e["type"] == "Warning"]


async def test_growth_waits_until_orphans_outside_the_plan_are_gone() -> None:
    sim = await converged()
    orphaned(sim)
    sim.cluster.terminating_ticks = 3
    sim.add(service("rm2", {"spec.instanceTypes": {"names": [GPU_TYPE]}, "spec.planner": "kairos"}))
    for _ in range(10):
        await sim.round()
        assert cost_of(sim) <= 2500


async def test_a_deployment_of_somebody_with_our_labels_alone_is_no_orphan() -> None:
    sim = await converged()
    found = copy.deepcopy(sim.api.objects[deployment_path(CPU_DEPLOYMENT)])
    metadata = {"name": "theirs", "namespace": "default", "labels": found["metadata"]["labels"]}
    sim.add({**found, "metadata": metadata, "status": {}})
    await sim.converge()
    assert "theirs" in sim.replicas(), "what is not of our making is not ours to delete"
    assert sim.condition("Ready")["status"] == "True"
    assert sim.condition("PodsOwned")["status"] == "False"
    assert deployment_name("rm2", CPU_TYPE) in sim.replicas()
