"""Labels can be written by anybody: what counts is who owns a pod, and what is not the service's is named."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from hetserve.api import names
from hetserve.reconcile.build import deployment_name
from hetserve.testing.builders import service
from hetserve.testing.scenes import CPU_TYPE, GPU_TYPE, rm2_scene
from hetserve_operator.testing import Lab
from hetserve_operator.workqueue import Key
from operator_scene import CPU_DEPLOYMENT, GPU_DEPLOYMENT, PLANNED, SERVICE, converged, deployment_path

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


def _of_a_replica_set(labels: Json, name: str = "theirs") -> Callable[[Lab], Json]:
    def make(lab: Lab) -> Json:
        lab.add(replica_set(name, labels))
        uid = _uid(lab, f"/apis/apps/v1/namespaces/default/replicasets/{name}")
        return pod(f"{name}-1", {"kind": "ReplicaSet", "name": name, "uid": uid})

    return make


def _uid(lab: Lab, path: str) -> str:
    return str(lab.api.objects[path]["metadata"]["uid"])


STRANGERS: dict[str, Callable[[Lab], Json]] = {
    "nobody's": lambda _: pod("alone"),
    "a node's": lambda lab: pod("mirror", {"kind": "Node", "name": "gpu-0", "uid": _uid(lab, "/api/v1/nodes/gpu-0")}),
    "a ReplicaSet's with our labels": _of_a_replica_set(LABELS),
    "a ReplicaSet's without our labels": _of_a_replica_set({"app": "theirs"}),
    "one's of our name that has lost our labels": _of_a_replica_set({}, f"{GPU_DEPLOYMENT}-theirs"),
}


@pytest.mark.parametrize("whose", STRANGERS)
async def test_a_pod_that_only_carries_our_labels_counts_for_nothing_and_is_named(whose: str) -> None:
    lab = await converged()
    before = lab.condition("WithinBudget")["message"]
    stranger = STRANGERS[whose](lab)
    lab.add(stranger)
    await lab.converge()
    assert lab.condition("Ready")["status"] == "True", "it blocks Ready"
    assert lab.condition("WithinBudget")["message"] == before, "it spends the budget"
    owned = lab.condition("PodsOwned")
    assert (owned["status"], owned["reason"]) == ("False", "StrangerPods")
    assert stranger["metadata"]["name"] in owned["message"]
    assert [e["reason"] for _, e in lab.api.items("events")].count("StrangerPods") == 1
    assert lab.replicas() == PLANNED
    lab.api.remove(f"/api/v1/namespaces/default/pods/{stranger['metadata']['name']}")
    await lab.converge()
    assert lab.condition("PodsOwned")["status"] == "True"


async def test_a_new_plan_does_not_wait_for_the_budget_of_strangers() -> None:
    lab = Lab()
    lab.add(*rm2_scene(), *(pod(f"alone-{i}") for i in range(20)))
    await lab.converge()
    assert lab.replicas() == PLANNED, "twenty strangers spend the budget for ever"


async def test_a_stranger_on_a_node_takes_its_room_as_any_other_pod_does() -> None:
    lab = Lab()
    lab.add(*rm2_scene(gpu_nodes=1, cpu_nodes=0, overrides={"spec.budget.hourly": "0.6"}))
    held = pod("alone")
    held["spec"]["nodeName"] = "gpu-0"
    held["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "4"}}
    lab.add(held)
    await lab.converge()
    assert lab.service()["status"]["reason"] == "CapacityTooLow"


async def test_pods_of_a_deployment_that_was_deleted_are_paid_until_they_are_gone() -> None:
    lab = await converged()
    lab.cluster.terminating_ticks = 8
    lab.api.remove(deployment_path(CPU_DEPLOYMENT))
    seen = []
    for _ in range(12):
        await lab.round()
        seen.append((len(lab.cluster.pods()), lab.condition("PodsOwned")["status"]))
    assert max(count for count, _ in seen) == 9, "successors beside pods that are not gone cost more than the budget"
    assert {status for _, status in seen} == {"True"}, "what a Deployment left behind is no stranger"


def orphaned(lab: Lab) -> None:
    """`kubectl delete hisvc rm2 --cascade=orphan`, once the garbage collector has been there."""
    lab.api.remove(SERVICE)
    for _, raw in lab.api.items("deployments"):
        raw["metadata"].pop("ownerReferences")
        lab.api.touch(deployment_path(raw["metadata"]["name"]))


def cost_of(lab: Lab) -> int:
    """Of all pods, in thousandths of a dollar per hour."""
    prices = {GPU_TYPE: 526, CPU_TYPE: 149}
    return sum(prices[p["metadata"]["labels"][names.LABEL_INSTANCE_TYPE]] for _, p in lab.cluster.pods())


async def test_orphans_of_an_earlier_service_are_adopted_where_the_plan_holds_them_and_else_removed() -> None:
    lab = await converged()
    orphaned(lab)
    before = {path for path, p in lab.cluster.pods() if p["metadata"]["labels"][names.LABEL_INSTANCE_TYPE] == GPU_TYPE}
    mix = {"spec.load.batchSizes": [{"batch": 20, "weight": 98}, {"batch": 500, "weight": 2}]}
    lab.add(service("rm2", {**mix, "spec.instanceTypes": {"names": [GPU_TYPE]}}))
    await lab.converge()
    assert lab.replicas() == {GPU_DEPLOYMENT: 4}, "orphans of types outside the plan spend the budget for ever"
    assert before < {path for path, _ in lab.cluster.pods()}, "what is adopted runs on"
    assert lab.condition("Ready")["status"] == "True"
    notes = {e["reason"]: e["note"] for _, e in lab.api.items("events")}
    assert GPU_DEPLOYMENT in notes["OrphanAdopted"]
    assert CPU_DEPLOYMENT in notes["OrphanRemoved"]


@pytest.mark.parametrize("labels", [[names.LABEL_SERVICE], None])
async def test_a_deployment_that_loses_its_labels_keeps_its_pods_between_any_two_writes(
    labels: list[str] | None,
) -> None:
    lab = await converged()
    before = {path for path, _ in lab.cluster.pods()}
    path = deployment_path(CPU_DEPLOYMENT)
    gone = dict.fromkeys(labels or lab.api.objects[path]["metadata"]["labels"])
    kept = {k: v for k, v in lab.api.objects[path]["metadata"]["labels"].items() if k not in gone}
    lab.edit(path, lambda d: d["metadata"].update(labels=kept))
    lab.api.after.append(lambda *_: lab.cluster.tick())
    await lab.converge()
    assert {path for path, _ in lab.cluster.pods()} == before, "running instances are killed for a label"
    assert lab.api.objects[path]["metadata"]["labels"][names.LABEL_SERVICE] == "rm2"


async def test_a_deployment_without_labels_and_pods_is_found_by_its_name() -> None:
    lab = await converged()
    path = deployment_path(CPU_DEPLOYMENT)
    lab.edit(path, lambda d: d["metadata"].update(labels={}))
    for pod_path, found in lab.cluster.pods(lab.api.objects[path]):
        del found
        lab.api.remove(pod_path)
    lab.api.after.append(lambda *_: lab.cluster.tick())
    await lab.converge()
    assert lab.replicas() == PLANNED
    assert lab.condition("Ready")["status"] == "True"


async def test_a_deployment_of_our_name_and_label_that_hetserve_did_not_make_is_not_adopted() -> None:
    lab = Lab()
    lab.add(*rm2_scene())
    meta = {"name": GPU_DEPLOYMENT, "namespace": "default", "labels": LABELS}
    selector = {"matchLabels": {names.LABEL_INSTANCE_TYPE: GPU_TYPE}}
    template = {"metadata": {"labels": LABELS}, "spec": {"containers": [{"name": "theirs", "image": "t"}]}}
    spec = {"replicas": 1, "selector": selector, "template": template}
    lab.add({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": spec})
    await lab.converge()
    assert lab.api.objects[deployment_path(GPU_DEPLOYMENT)]["spec"] == spec
    ready = lab.condition("Ready")
    assert (ready["reason"], GPU_DEPLOYMENT in ready["message"]) == ("WriteRefused", True)


async def test_an_orphan_that_has_lost_our_record_is_counted_and_taken_in_all_the_same() -> None:
    lab = await converged()
    orphaned(lab)
    for _, raw in lab.api.items("deployments"):
        raw["metadata"]["annotations"].clear()
    lab.add(service("rm2", {"spec.instanceTypes": {"names": [GPU_TYPE]}}))
    for _ in range(10):
        await lab.round()
        assert cost_of(lab) <= 2500
    assert lab.replicas() == {GPU_DEPLOYMENT: 4}


async def test_orphans_over_the_budget_are_cut_while_the_template_is_refused() -> None:
    lab = await converged()
    orphaned(lab)
    lab.add(service("rm2", {"spec.budget.hourly": "1.0"}))
    lab.edit(SERVICE, lambda s: s["spec"]["template"]["spec"]["containers"][0].update(imagee="x"))
    await lab.converge()
    assert cost_of(lab) <= 1000
    assert lab.service()["status"]["reason"] == "TemplateInvalid"


async def test_a_service_made_anew_waits_for_what_its_predecessor_left_and_is_not_stalled() -> None:
    lab = await converged()
    lab.api.remove(SERVICE)
    lab.add(*rm2_scene())
    await lab.look(Key("default", "rm2"))  # before the garbage collector has been there
    await lab.look(Key("default", "rm2"))
    stalled, reconciling = lab.condition("Stalled"), lab.condition("Reconciling")
    assert (stalled["status"], reconciling["status"]) == ("False", "True")
    assert not [e for _, e in lab.api.items("events") if e["type"] == "Warning"]


async def test_growth_waits_until_orphans_outside_the_plan_are_gone() -> None:
    lab = await converged()
    orphaned(lab)
    lab.cluster.terminating_ticks = 3
    lab.add(service("rm2", {"spec.instanceTypes": {"names": [GPU_TYPE]}}))
    for _ in range(10):
        await lab.round()
        assert cost_of(lab) <= 2500


async def test_a_deployment_of_somebody_with_our_labels_alone_is_no_orphan() -> None:
    lab = await converged()
    found = copy.deepcopy(lab.api.objects[deployment_path(CPU_DEPLOYMENT)])
    metadata = {"name": "theirs", "namespace": "default", "labels": found["metadata"]["labels"]}
    lab.add({**found, "metadata": metadata, "status": {}})
    await lab.converge()
    assert "theirs" in lab.replicas(), "what is not of our making is not ours to delete"
    assert lab.condition("Ready")["status"] == "True"
    assert lab.condition("PodsOwned")["status"] == "False"
    assert deployment_name("rm2", CPU_TYPE) in lab.replicas()
