"""The operator over an API server in memory: what it brings about, and what it leaves alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from hetserve.api import names
from hetserve.planning import plan
from hetserve.planning.plan import Plan
from hetserve.planning.problem import Problem
from hetserve.reconcile.build import deployment_name
from hetserve.testing.builders import instance_type, model_profile, service
from hetserve.testing.scenes import CPU_TYPE, GPU_TYPE, cpu_profile, rm2_scene
from hetserve_operator.api import ApiRefusalError
from hetserve_operator.testing import Lab, path_of

Json = dict[str, Any]
GPU_DEPLOYMENT = deployment_name("rm2", GPU_TYPE)
CPU_DEPLOYMENT = deployment_name("rm2", CPU_TYPE)
SERVICE = path_of(service("rm2"))
PLANNED = {GPU_DEPLOYMENT: 3, CPU_DEPLOYMENT: 6}


def deployment_path(name: str) -> str:
    return f"/apis/apps/v1/namespaces/default/deployments/{name}"


async def converged(**scene: Any) -> Lab:
    lab = Lab()
    lab.add(*rm2_scene(**scene))
    await lab.converge()
    return lab


async def test_a_new_service_is_planned_rolled_out_and_ready() -> None:
    lab = await converged()
    status = lab.service()["status"]
    assert lab.replicas() == PLANNED
    assert status["plan"]["summary"] == f"3x{GPU_TYPE}+6x{CPU_TYPE}"
    assert status["plan"]["hourlyCost"] == "2.472"
    assert (status["reason"], lab.condition("Ready")["status"]) == ("AllInstancesReady", "True")
    assert status["instances"] == [
        {"instanceType": GPU_TYPE, "desired": 3, "bound": 3, "ready": 3},
        {"instanceType": CPU_TYPE, "desired": 6, "bound": 6, "ready": 6},
    ]
    assert {c["type"]: c["status"] for c in status["conditions"]} == {
        "Ready": "True",
        "Planned": "True",
        "Feasible": "True",
        "WithinBudget": "True",
        "ProfileReady": "True",
        "CapacityAvailable": "True",
        "Progressing": "False",
    }


async def test_at_rest_nothing_is_written() -> None:
    lab = await converged()
    lab.api.writes.clear()
    lab.restart()
    for _ in range(5):
        await lab.round()
    assert lab.api.writes == []


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


@pytest.mark.parametrize("edit", FOREIGN_EDITS)
async def test_a_foreign_change_of_our_deployment_is_undone(edit: str) -> None:
    lab = await converged()
    name, change = FOREIGN_EDITS[edit]
    path = deployment_path(name)
    before = lab.api.objects[path]["spec"], lab.api.objects[path]["metadata"]["labels"]
    lab.edit(path, change)
    await lab.converge()
    after = lab.api.objects[path]["spec"], lab.api.objects[path]["metadata"]["labels"]
    assert after == before
    assert lab.condition("Ready")["status"] == "True"


async def test_foreign_notes_on_the_deployment_itself_and_a_users_restart_stay() -> None:
    lab = await converged()
    path = deployment_path(GPU_DEPLOYMENT)
    lab.edit(path, lambda d: d["metadata"]["annotations"].update(note="mine"))
    restarted = {"kubectl.kubernetes.io/restartedAt": "2026-01-01T00:00:00Z"}
    lab.edit(path, lambda d: d["spec"]["template"]["metadata"]["annotations"].update(restarted))
    lab.edit(path, lambda d: _pod(d)["containers"].append({"name": "spy", "image": "x:1"}))
    await lab.converge()
    found = lab.api.objects[path]
    assert found["metadata"]["annotations"]["note"] == "mine"
    assert found["spec"]["template"]["metadata"]["annotations"].items() >= restarted.items()
    assert len(_pod(found)["containers"]) == 1


async def test_a_deleted_deployment_comes_back() -> None:
    lab = await converged()
    lab.api.remove(deployment_path(CPU_DEPLOYMENT))
    await lab.converge()
    assert lab.replicas() == PLANNED
    assert lab.condition("Ready")["status"] == "True"


async def test_a_new_template_is_rolled_out_although_every_gpu_holds_an_instance() -> None:
    lab = Lab()
    lab.add(*rm2_scene(gpu_nodes=1, overrides={"spec.budget.hourly": "0.55"}))
    await lab.converge()
    lab.edit(SERVICE, lambda s: s["spec"]["template"]["spec"]["containers"][0].update(image="model:2"))
    await lab.converge()
    pods = [pod["spec"]["containers"][0]["image"] for _, pod in lab.cluster.pods()]
    assert pods == ["model:2"]
    assert lab.condition("Ready")["status"] == "True"


async def test_a_smaller_budget_makes_a_smaller_plan() -> None:
    lab = await converged()
    lab.edit(SERVICE, lambda s: s["spec"]["budget"].update(hourly="1.0"))
    await lab.converge()
    assert lab.replicas() == {GPU_DEPLOYMENT: 1, CPU_DEPLOYMENT: 3}
    assert len(lab.cluster.pods()) == 4


async def test_a_budget_that_buys_nothing_leaves_what_runs_and_says_the_numbers() -> None:
    lab = await converged()
    lab.edit(SERVICE, lambda s: s["spec"]["budget"].update(hourly="0.3"))
    await lab.converge()
    assert lab.replicas() == PLANNED
    assert lab.service()["status"]["reason"] == "BudgetTooLow"
    within = lab.condition("WithinBudget")
    assert (within["status"], within["reason"]) == ("False", "OverBudget")
    assert "2.472 $/h" in within["message"]
    assert "0.300 $/h" in within["message"]
    assert "0.526" in lab.condition("Feasible")["message"]
    assert lab.service()["status"]["plan"]["summary"] == f"3x{GPU_TYPE}+6x{CPU_TYPE}"


async def test_a_new_price_makes_a_new_plan() -> None:
    lab = await converged()
    lab.edit(path_of(instance_type(CPU_TYPE)), lambda t: t["spec"]["price"].update(hourly="0.3"))
    await lab.converge()
    assert lab.replicas() == {GPU_DEPLOYMENT: 4, CPU_DEPLOYMENT: 1}


async def test_the_least_instances_of_a_type_are_held_and_one_that_nobody_can_pay_is_named() -> None:
    lab = await converged()
    lab.edit(path_of(instance_type(GPU_TYPE)), lambda t: t["spec"].update(minInstances=4))
    await lab.converge()
    assert lab.replicas()[GPU_DEPLOYMENT] == 4
    lab.edit(path_of(instance_type(GPU_TYPE)), lambda t: t["spec"].update(minInstances=9))
    await lab.converge()
    assert (lab.condition("Feasible")["status"], lab.condition("Feasible")["reason"]) == ("False", "CapacityTooLow")
    assert f"at least 9x{GPU_TYPE} are wanted, only 4 can be had" in lab.condition("Feasible")["message"]
    assert lab.replicas()[GPU_DEPLOYMENT] == 4, "what runs stays"


async def test_a_type_that_is_gone_is_planned_without() -> None:
    lab = await converged()
    lab.api.remove(path_of(instance_type(CPU_TYPE)))
    await lab.converge()
    assert lab.replicas() == {GPU_DEPLOYMENT: 4}


async def test_two_profiles_for_one_type_stop_planning_and_name_both() -> None:
    lab = await converged()
    lab.add(cpu_profile("rm2-again"))
    await lab.converge()
    assert lab.service()["status"]["reason"] == "ProfileConflict"
    assert lab.condition("ProfileReady")["status"] == "False"
    assert "rm2-again and rm2-r5n-large" in lab.condition("Planned")["message"]
    assert lab.replicas() == PLANNED
    lab.api.remove(path_of(cpu_profile("rm2-again")))
    await lab.converge()
    assert lab.condition("Ready")["status"] == "True"


async def test_a_stored_spec_that_breaks_a_rule_is_named_and_the_other_services_go_on() -> None:
    lab = await converged()
    lab.add(service("bad", {"spec.slo.latency": "soon"}), service("rm2", {"spec.budget.hourly": "1.0"}))
    await lab.converge()
    planned = lab.condition("Planned", "bad")
    assert (planned["status"], planned["reason"]) == ("False", "SpecInvalid")
    assert "spec.slo.latency: 'soon' is not a duration" in planned["message"]
    assert lab.condition("WithinBudget", "bad")["status"] == "Unknown"
    assert lab.replicas() == {GPU_DEPLOYMENT: 1, CPU_DEPLOYMENT: 3}


async def test_a_broken_type_stops_only_the_services_that_use_it() -> None:
    lab = await converged()
    other = [model_profile("other-g4dn", {"spec.model": "other"}), service("other", {"spec.budget.hourly": "0.6"})]
    lab.add(*other)
    lab.edit(path_of(instance_type(CPU_TYPE)), lambda t: t["spec"]["price"].update(hourly="cheap"))
    await lab.converge()
    assert lab.service()["status"]["reason"] == "SpecInvalid"
    assert f"InstanceType {CPU_TYPE}: spec.price.hourly" in lab.condition("Planned")["message"]
    assert lab.condition("Ready", "other")["status"] == "True"


async def test_a_template_that_the_apiserver_refuses_is_said_in_its_words_and_changes_nothing() -> None:
    lab = await converged()
    before = lab.api.objects[deployment_path(GPU_DEPLOYMENT)]["metadata"]["resourceVersion"]
    lab.edit(SERVICE, lambda s: s["spec"]["template"]["spec"]["containers"][0].update(image=""))
    await lab.converge()
    assert lab.service()["status"]["reason"] == "TemplateInvalid"
    message = lab.condition("Progressing")["message"]
    field = "spec.template.spec.containers[0].image"
    assert message == f'Deployment.apps "{GPU_DEPLOYMENT}" is invalid: {field}: Required value'
    assert lab.api.objects[deployment_path(GPU_DEPLOYMENT)]["metadata"]["resourceVersion"] == before
    lab.edit(SERVICE, lambda s: s["spec"]["template"]["spec"]["containers"][0].update(image="good:1"))
    await lab.converge()
    assert lab.condition("Ready")["status"] == "True"


async def test_a_service_that_is_being_deleted_gets_no_write() -> None:
    lab = await converged()
    lab.edit(SERVICE, lambda s: s["metadata"].update(deletionTimestamp="2026-01-01T00:00:00Z"))
    lab.edit(SERVICE, lambda s: s["spec"]["budget"].update(hourly="1.0"))
    lab.api.writes.clear()
    await lab.round()
    assert lab.api.writes == []


async def test_a_deleted_service_leaves_nothing_and_its_successor_starts_afresh() -> None:
    lab = await converged()
    lab.api.remove(SERVICE)
    lab.add(service("rm2"))  # before the old Deployments are collected: same names, other owner
    await lab.converge()
    uid = lab.service()["metadata"]["uid"]
    owners = {d["metadata"]["ownerReferences"][0]["uid"] for _, d in lab.api.items("deployments")}
    assert owners == {uid}
    assert lab.condition("Ready")["status"] == "True"
    lab.api.remove(SERVICE)
    lab.cluster.settle(5)
    assert lab.replicas() == {}
    assert lab.cluster.pods() == []


async def test_a_deployment_of_our_name_that_is_not_ours_is_left_alone_and_named() -> None:
    lab = Lab()
    lab.add(*rm2_scene())
    foreign = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": GPU_DEPLOYMENT, "namespace": "default", "labels": {}},
        "spec": {"replicas": 0, "template": {"metadata": {"labels": {}}, "spec": {"containers": []}}},
    }
    lab.add(foreign)
    await lab.converge()
    assert lab.api.objects[path_of(foreign)]["spec"] == foreign["spec"]
    progressing = lab.condition("Progressing")
    assert progressing["reason"] == "WriteRefused"
    assert GPU_DEPLOYMENT in progressing["message"]


async def test_a_missing_right_is_named_in_the_status_and_heals_when_granted() -> None:
    lab = Lab()
    lab.add(*rm2_scene())
    words = 'deployments.apps is forbidden: User "x" cannot patch resource "deployments" in API group "apps"'

    def deny(method: str, path: str, _: Any) -> None:
        if method == "PATCH" and "/deployments/" in path:
            raise ApiRefusalError(403, "Forbidden", words)

    lab.api.before.append(deny)
    await lab.converge()
    assert lab.condition("Progressing")["reason"] == "WriteRefused"
    assert words in lab.condition("Progressing")["message"]
    lab.api.before.clear()
    lab.clock += 60
    await lab.converge()
    assert lab.condition("Ready")["status"] == "True"


async def test_an_unplaceable_instance_is_said_in_the_schedulers_words() -> None:
    lab = Lab()
    lab.add(*rm2_scene(gpu_nodes=1, cpu_nodes=0, overrides={"spec.budget.hourly": "0.6"}))
    await lab.converge()
    assert lab.condition("CapacityAvailable")["status"] == "True"
    lab.edit("/api/v1/nodes/gpu-0", lambda n: n["metadata"]["labels"].update({"nvidia.com/gpu.count": "0"}))
    path, _ = next(iter(lab.cluster.pods()))
    lab.api.remove(path)
    await lab.converge()
    capacity = lab.condition("CapacityAvailable")
    assert (capacity["status"], capacity["reason"]) == ("False", "WaitingForCapacity")
    assert "same model on every GPU" in capacity["message"]
    assert lab.replicas() == {GPU_DEPLOYMENT: 1}


async def test_a_planner_that_fails_is_a_condition_of_that_service_only() -> None:
    def planner(problem: Problem) -> Plan:
        if problem.service == "other":
            raise ZeroDivisionError("u / 0")
        return plan(problem)

    lab = Lab(planner)
    lab.add(*rm2_scene(), model_profile("other-g4dn", {"spec.model": "other"}), service("other"))
    await lab.converge()
    assert lab.service("other")["status"]["reason"] == "PlannerFailed"
    assert "ZeroDivisionError: u / 0" in lab.condition("Planned", "other")["message"]
    assert lab.condition("Ready")["status"] == "True"


async def test_events_tell_each_state_once() -> None:
    lab = await converged()
    for _ in range(3):
        await lab.round()
    reasons = [e["reason"] for _, e in lab.api.items("events")]
    assert sorted(reasons) == ["PlanChanged", "RolledOut"]


async def test_a_hand_that_never_stops_is_answered_ever_later() -> None:
    lab = await converged()
    lab.api.writes.clear()
    for _ in range(120):
        lab.edit(deployment_path(CPU_DEPLOYMENT), lambda d: d["spec"].update(paused=True))
        await lab.round()
    puts = [w for w in lab.api.writes if w[0] == "PUT"]
    assert 5 <= len(puts) <= 14, "an edit war must not spin: 120 seconds of it"
    lab.clock += 60
    await lab.converge()
    assert "paused" not in lab.api.objects[deployment_path(CPU_DEPLOYMENT)]["spec"]
