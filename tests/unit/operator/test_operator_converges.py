"""The operator over an API server in memory: what it creates, changes and leaves alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from effort import spread
from hetserve.api import names
from operator_scene import CPU_DEPLOYMENT, GPU_DEPLOYMENT, PLANNED, SERVICE, converged, deployment_path
from testing.builders import instance_type, service
from testing.operator import SimulatedOperator, path_of
from testing.scenes import CPU_TYPE, GPU_TYPE, rm2_scene

Json = dict[str, Any]


async def test_a_new_service_is_planned_rolled_out_and_ready() -> None:
    sim = await converged()
    status = sim.service()["status"]
    assert sim.replicas() == PLANNED
    assert status["plan"]["summary"] == f"3x{GPU_TYPE}+6x{CPU_TYPE}"
    assert status["plan"]["hourlyCost"] == "2.472"
    assert (status["reason"], sim.condition("Ready")["status"]) == ("AllInstancesReady", "True")
    assert status["instances"] == [
        {"instanceType": GPU_TYPE, "desired": 3, "bound": 3, "ready": 3},
        {"instanceType": CPU_TYPE, "desired": 6, "bound": 6, "ready": 6},
    ]
    assert {c["type"]: c["status"] for c in status["conditions"]} == {
        "Ready": "True",
        "Reconciling": "False",
        "Stalled": "False",
        "Planned": "True",
        "Feasible": "True",
        "WithinBudget": "True",
        "ProfileReady": "True",
        "CapacityAvailable": "True",
        "Progressing": "False",
        "PodsOwned": "True",
        "SharingKept": "True",
        "SharingUnmeasured": "False",
    }


async def test_at_rest_nothing_is_written() -> None:
    sim = await converged()
    sim.api.writes.clear()
    sim.restart()
    for _ in range(5):
        await sim.round()
    assert sim.api.writes == []


FOREIGN_EDITS: dict[str, tuple[str, Callable[[Json], object]]] = {
    "a sidecar": (GPU_DEPLOYMENT, lambda d: _pod(d)["containers"].append({"name": "spy", "image": "x:1"})),
    "an env": (GPU_DEPLOYMENT, lambda d: _pod(d)["containers"][0]["env"].append({"name": "EVIL", "value": "1"})),
    "a changed image": (GPU_DEPLOYMENT, lambda d: _pod(d)["containers"][0].update(image="x:2")),
    "a node selector": (CPU_DEPLOYMENT, lambda d: _pod(d)["nodeSelector"].update(disk="ssd")),
    "a label in the template": (CPU_DEPLOYMENT, lambda d: d["spec"]["template"]["metadata"]["labels"].update(a="b")),
    "fewer replicas": (CPU_DEPLOYMENT, lambda d: d["spec"].update(replicas=2)),
    "more replicas": (CPU_DEPLOYMENT, lambda d: d["spec"].update(replicas=40)),
    "paused": (CPU_DEPLOYMENT, lambda d: d["spec"].update(paused=True)),
    "another strategy": (GPU_DEPLOYMENT, lambda d: d["spec"].update(strategy={"type": "Recreate"})),
    "our label taken off": (GPU_DEPLOYMENT, lambda d: d["metadata"]["labels"].pop(names.LABEL_MODEL)),
    "the selecting label taken off": (GPU_DEPLOYMENT, lambda d: d["metadata"]["labels"].pop(names.LABEL_SERVICE)),
    "our bookkeeping taken off": (GPU_DEPLOYMENT, lambda d: d["metadata"]["annotations"].clear()),
}


def _pod(deployment: Json) -> Json:
    pod: Json = deployment["spec"]["template"]["spec"]
    return pod


@pytest.mark.parametrize("edit", spread(tuple(FOREIGN_EDITS), 5))
async def test_a_foreign_change_of_our_deployment_is_undone(edit: str) -> None:
    sim = await converged()
    name, change = FOREIGN_EDITS[edit]
    path = deployment_path(name)
    before = sim.api.objects[path]["spec"], sim.api.objects[path]["metadata"]["labels"]
    sim.edit(path, change)
    await sim.converge()
    after = sim.api.objects[path]["spec"], sim.api.objects[path]["metadata"]["labels"]
    assert after == before
    assert sim.condition("Ready")["status"] == "True"


async def test_foreign_notes_on_the_deployment_itself_and_a_users_restart_stay() -> None:
    sim = await converged()
    path = deployment_path(GPU_DEPLOYMENT)
    sim.edit(path, lambda d: d["metadata"]["annotations"].update(note="mine"))
    restarted = {"kubectl.kubernetes.io/restartedAt": "2026-01-01T00:00:00Z"}
    sim.edit(path, lambda d: d["spec"]["template"]["metadata"]["annotations"].update(restarted))
    sim.edit(path, lambda d: _pod(d)["containers"].append({"name": "spy", "image": "x:1"}))
    await sim.converge()
    found = sim.api.objects[path]
    assert found["metadata"]["annotations"]["note"] == "mine"
    assert found["spec"]["template"]["metadata"]["annotations"].items() >= restarted.items()
    assert len(_pod(found)["containers"]) == 1


async def test_a_deleted_deployment_comes_back() -> None:
    sim = await converged()
    sim.api.remove(deployment_path(CPU_DEPLOYMENT))
    await sim.converge()
    assert sim.replicas() == PLANNED
    assert sim.condition("Ready")["status"] == "True"


async def test_a_new_template_is_rolled_out_although_every_gpu_holds_an_instance() -> None:
    sim = SimulatedOperator()
    sim.add(*rm2_scene(gpu_nodes=1, overrides={"spec.budget.hourly": "0.55"}))
    await sim.converge()
    sim.edit(SERVICE, lambda s: s["spec"]["template"]["spec"]["containers"][0].update(image="model:2"))
    await sim.converge()
    pods = [pod["spec"]["containers"][0]["image"] for _, pod in sim.cluster.pods()]
    assert pods == ["model:2"]
    assert sim.condition("Ready")["status"] == "True"


async def test_a_smaller_budget_makes_a_smaller_plan() -> None:
    sim = await converged()
    sim.edit(SERVICE, lambda s: s["spec"]["budget"].update(hourly="1.0"))
    await sim.converge()
    assert sim.replicas() == {GPU_DEPLOYMENT: 1, CPU_DEPLOYMENT: 3}
    assert len(sim.cluster.pods()) == 4


async def test_a_new_price_makes_a_new_plan() -> None:
    sim = await converged()
    sim.edit(path_of(instance_type(CPU_TYPE)), lambda t: t["spec"]["price"].update(hourly="0.3"))
    await sim.converge()
    assert sim.replicas() == {GPU_DEPLOYMENT: 3, CPU_DEPLOYMENT: 3}


async def test_the_least_instances_of_a_type_are_held_and_one_that_nobody_can_pay_is_named() -> None:
    sim = await converged()
    sim.edit(path_of(instance_type(GPU_TYPE)), lambda t: t["spec"].update(minInstances=4))
    await sim.converge()
    assert sim.replicas()[GPU_DEPLOYMENT] == 4
    sim.edit(path_of(instance_type(GPU_TYPE)), lambda t: t["spec"].update(minInstances=9))
    await sim.converge()
    assert (sim.condition("Feasible")["status"], sim.condition("Feasible")["reason"]) == ("False", "CapacityTooLow")
    assert f"at least 9x{GPU_TYPE} are wanted, only 4 can be had" in sim.condition("Feasible")["message"]
    assert sim.replicas()[GPU_DEPLOYMENT] == 4, "what runs stays"


async def test_a_type_that_is_gone_is_planned_without() -> None:
    sim = await converged()
    sim.api.remove(path_of(instance_type(CPU_TYPE)))
    await sim.converge()
    assert sim.replicas() == {GPU_DEPLOYMENT: 4}


async def test_a_service_that_is_being_deleted_gets_no_write() -> None:
    sim = await converged()
    sim.edit(SERVICE, lambda s: s["metadata"].update(deletionTimestamp="2026-01-01T00:00:00Z"))
    sim.edit(SERVICE, lambda s: s["spec"]["budget"].update(hourly="1.0"))
    sim.api.writes.clear()
    await sim.round()
    assert sim.api.writes == []


async def test_a_deleted_service_leaves_nothing_and_its_successor_starts_afresh() -> None:
    sim = await converged()
    sim.api.remove(SERVICE)
    # Before the old Deployments are collected: same names, other owner.
    sim.add(service("rm2", {"spec.planner": "kairos"}))
    await sim.converge()
    uid = sim.service()["metadata"]["uid"]
    owners = {d["metadata"]["ownerReferences"][0]["uid"] for _, d in sim.api.items("deployments")}
    assert owners == {uid}
    assert sim.condition("Ready")["status"] == "True"
    sim.api.remove(SERVICE)
    sim.cluster.settle(5)
    assert sim.replicas() == {}
    assert sim.cluster.pods() == []


async def test_events_tell_each_state_once() -> None:
    sim = await converged()
    for _ in range(3):
        await sim.round()
    reasons = [e["reason"] for _, e in sim.api.items("events")]
    assert sorted(reasons) == ["PlanChanged", "RolledOut"]


async def test_a_hand_that_never_stops_is_answered_ever_later() -> None:
    sim = await converged()
    sim.api.writes.clear()
    for _ in range(120):
        sim.edit(deployment_path(CPU_DEPLOYMENT), lambda d: d["spec"].update(paused=True))
        await sim.round()
    puts = [w for w in sim.api.writes if w[0] == "PUT"]
    assert 5 <= len(puts) <= 14, "an edit war must not spin: 120 seconds of it"
    sim.clock += 60
    await sim.converge()
    assert "paused" not in sim.api.objects[deployment_path(CPU_DEPLOYMENT)]["spec"]
