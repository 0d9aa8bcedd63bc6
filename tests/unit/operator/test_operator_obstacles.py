"""What an operator cannot bring about: it is named in the status, what runs stays, and the others go on."""

from __future__ import annotations

from typing import Any

from hetserve.planning import plan
from hetserve.planning.plan import Plan
from hetserve.planning.problem import Problem
from hetserve.reconcile.api_messages import replica_failure
from hetserve.testing.builders import instance_type, model_profile, service
from hetserve.testing.scenes import CPU_TYPE, GPU_TYPE, cpu_profile, rm2_scene
from hetserve_operator.api import ApiRefusalError
from hetserve_operator.testing import Lab, path_of
from hetserve_operator.workqueue import Key
from operator_scene import CPU_DEPLOYMENT, GPU_DEPLOYMENT, PLANNED, SERVICE, converged, deployment_path


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


async def test_pods_that_cannot_be_created_are_told_in_the_words_of_their_deployment() -> None:
    lab = await converged()
    words = f'pods "{CPU_DEPLOYMENT}-6c5f-%s" is forbidden: error looking up service account default/nope'
    failure = {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate"}
    for suffix in ("x8k2p", "b4c5d"):
        failure["message"] = words % suffix
        lab.edit(deployment_path(CPU_DEPLOYMENT), lambda d: d["status"].update(conditions=[failure]))
        await lab.look(Key("default", "rm2"))
        capacity = lab.condition("CapacityAvailable")
        assert (capacity["status"], capacity["reason"]) == ("False", "InstancesRefused")
        assert capacity["message"] == f"{CPU_TYPE}: {words % ''}", "each try of the controller is another message"
    lab.edit(deployment_path(CPU_DEPLOYMENT), lambda d: d["status"].pop("conditions"))
    await lab.converge()
    assert lab.condition("CapacityAvailable")["status"] == "True"


def test_the_suffix_of_a_pod_is_left_out_however_long_the_names_are() -> None:
    long = "recommendation-model-large-production-g5-xlarge-1d7be2"

    def told(message: str) -> str | None:
        failure = {"type": "ReplicaFailure", "status": "True", "message": message}
        return replica_failure({"metadata": {"name": long}, "status": {"conditions": [failure]}})

    for suffix in ("x8k2p", "b4c5d"):
        generated = f"{long}-6c5f9d7b8-"[:58] + suffix
        assert told(f'pods "{generated}" is forbidden') == f'pods "{long}-6c5" is forbidden'
    assert told('serviceaccount "nope5" not found') == 'serviceaccount "nope5" not found'
