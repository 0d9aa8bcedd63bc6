"""Obstacles are reported in the status; what runs stays, and other services continue."""

from __future__ import annotations

from typing import Any

from hetserve.planning import plan
from hetserve.planning.plan import Plan
from hetserve.planning.problem import Problem
from hetserve.reconcile.cluster.api_messages import replica_failure
from hetserve_operator.workqueue import Key
from hetserve_shell.kube.client import ApiStatusError
from operator_scene import CPU_DEPLOYMENT, GPU_DEPLOYMENT, PLANNED, SERVICE, converged, deployment_path
from testing.builders import instance_type, model_profile, service
from testing.operator import SimulatedOperator, path_of
from testing.scenes import CPU_TYPE, GPU_TYPE, cpu_profile, rm2_scene


async def test_a_budget_that_buys_nothing_leaves_what_runs_if_it_is_to_be_kept_and_says_the_numbers() -> None:
    sim = await converged()
    sim.edit(SERVICE, lambda s: s["spec"]["budget"].update(hourly="0.3", whenTooLow="Keep"))
    await sim.converge()
    assert sim.replicas() == PLANNED
    assert sim.service()["status"]["reason"] == "BudgetTooLow"
    within = sim.condition("WithinBudget")
    assert (within["status"], within["reason"]) == ("False", "OverBudget")
    assert "2.472 $/h" in within["message"]
    assert "0.300 $/h" in within["message"]
    assert "0.526" in sim.condition("Feasible")["message"]
    assert sim.service()["status"]["plan"]["summary"] == f"3x{GPU_TYPE}+6x{CPU_TYPE}"


async def test_two_profiles_for_one_type_stop_planning_and_name_both() -> None:
    sim = await converged()
    sim.add(cpu_profile("rm2-again"))
    await sim.converge()
    assert sim.service()["status"]["reason"] == "ProfileConflict"
    assert sim.condition("ProfileReady")["status"] == "False"
    assert "rm2-again and rm2-r5n-large" in sim.condition("Planned")["message"]
    assert sim.replicas() == PLANNED
    sim.api.remove(path_of(cpu_profile("rm2-again")))
    await sim.converge()
    assert sim.condition("Ready")["status"] == "True"


def _variants(*names: str) -> list[dict[str, Any]]:
    linear = {"intercept": "5ms", "slope": "0.2ms"}
    return [{"name": name, "latency": {"linear": linear}} for name in names]


async def test_a_model_with_variants_runs_the_most_accurate_one_and_the_status_says_so() -> None:
    sim = await converged()
    sim.edit(SERVICE, lambda s: s["spec"]["model"].update(variants=[{"name": "full", "accuracy": "80"}]))
    await sim.converge()
    assert sim.condition("ProfileReady")["reason"] == "VariantMismatch"
    assert "has no spec.variants, with a latency of each of full" in sim.condition("Planned")["message"]
    assert sim.replicas() == PLANNED, "what runs stays"
    profiles = [path for path in sim.api.objects if "/modelprofiles/" in path]
    for path in profiles:
        sim.edit(path, lambda p: p["spec"].pop("latency") and p["spec"].update(variants=_variants("full", "tiny")))
    await sim.converge()
    assert sim.condition("Ready")["status"] == "True"
    said = sim.condition("ProfileReady")["message"]
    assert said.endswith("; of the variants the most accurate is planned and served: full")


async def test_a_stored_spec_that_breaks_a_rule_is_named_and_the_other_services_go_on() -> None:
    sim = await converged()
    sim.add(
        service("bad", {"spec.slo.latency": "soon"}),
        service("rm2", {"spec.budget.hourly": "1.0", "spec.planner": "kairos"}),
    )
    await sim.converge()
    planned = sim.condition("Planned", "bad")
    assert (planned["status"], planned["reason"]) == ("False", "SpecInvalid")
    assert "spec.slo.latency: 'soon' is not a duration" in planned["message"]
    assert sim.condition("WithinBudget", "bad")["status"] == "Unknown"
    assert sim.replicas() == {GPU_DEPLOYMENT: 1, CPU_DEPLOYMENT: 3}


async def test_a_stored_planner_that_there_is_no_longer_is_named_and_what_runs_stays() -> None:
    sim = await converged()
    before = sim.service()["status"]["plan"]
    sim.edit(SERVICE, lambda s: s["spec"].update(planner="robust"))
    sim.add(model_profile("other-g4dn", {"spec.model": "other"}), service("other", {"spec.budget.hourly": "0.6"}))
    await sim.converge()
    planned = sim.condition("Planned")
    assert (planned["status"], planned["reason"]) == ("False", "SpecInvalid")
    assert "spec.planner: 'robust' must be one of flow, kairos, " in planned["message"]
    assert {name: sim.replicas()[name] for name in PLANNED} == PLANNED
    assert sim.service()["status"]["plan"] == before
    assert sim.condition("Ready", "other")["status"] == "True"


async def test_a_broken_type_stops_only_the_services_that_use_it() -> None:
    sim = await converged()
    other = [model_profile("other-g4dn", {"spec.model": "other"}), service("other", {"spec.budget.hourly": "0.6"})]
    sim.add(*other)
    sim.edit(path_of(instance_type(CPU_TYPE)), lambda t: t["spec"]["price"].update(hourly="cheap"))
    await sim.converge()
    assert sim.service()["status"]["reason"] == "SpecInvalid"
    assert f"InstanceType {CPU_TYPE}: spec.price.hourly" in sim.condition("Planned")["message"]
    assert sim.condition("Ready", "other")["status"] == "True"


async def test_a_template_that_the_apiserver_refuses_is_said_in_its_words_and_changes_nothing() -> None:
    sim = await converged()
    before = sim.api.objects[deployment_path(GPU_DEPLOYMENT)]["metadata"]["resourceVersion"]
    sim.edit(SERVICE, lambda s: s["spec"]["template"]["spec"]["containers"][0].update(image=""))
    await sim.converge()
    assert sim.service()["status"]["reason"] == "TemplateInvalid"
    message = sim.condition("Progressing")["message"]
    field = "spec.template.spec.containers[0].image"
    assert message == f'Deployment.apps "{GPU_DEPLOYMENT}" is invalid: {field}: Required value'
    assert sim.api.objects[deployment_path(GPU_DEPLOYMENT)]["metadata"]["resourceVersion"] == before
    sim.edit(SERVICE, lambda s: s["spec"]["template"]["spec"]["containers"][0].update(image="good:1"))
    await sim.converge()
    assert sim.condition("Ready")["status"] == "True"


async def test_a_deployment_of_our_name_that_is_not_ours_is_left_alone_and_named() -> None:
    sim = SimulatedOperator()
    sim.add(*rm2_scene())
    foreign = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": GPU_DEPLOYMENT, "namespace": "default", "labels": {}},
        "spec": {"replicas": 0, "template": {"metadata": {"labels": {}}, "spec": {"containers": []}}},
    }
    sim.add(foreign)
    await sim.converge()
    assert sim.api.objects[path_of(foreign)]["spec"] == foreign["spec"]
    progressing = sim.condition("Progressing")
    assert progressing["reason"] == "WriteRefused"
    assert GPU_DEPLOYMENT in progressing["message"]


async def test_a_missing_right_is_named_in_the_status_and_heals_when_granted() -> None:
    sim = SimulatedOperator()
    sim.add(*rm2_scene())
    words = 'deployments.apps is forbidden: User "x" cannot patch resource "deployments" in API group "apps"'

    def deny(method: str, path: str, _: Any) -> None:
        if method == "PATCH" and "/deployments/" in path:
            raise ApiStatusError(403, "Forbidden", words)

    sim.api.before.append(deny)
    await sim.converge()
    assert sim.condition("Progressing")["reason"] == "WriteRefused"
    assert words in sim.condition("Progressing")["message"]
    sim.api.before.clear()
    sim.clock += 60
    await sim.converge()
    assert sim.condition("Ready")["status"] == "True"


async def test_an_unplaceable_instance_is_said_in_the_schedulers_words() -> None:
    sim = SimulatedOperator()
    sim.add(*rm2_scene(gpu_nodes=1, cpu_nodes=0, overrides={"spec.budget.hourly": "0.6"}))
    await sim.converge()
    assert sim.condition("CapacityAvailable")["status"] == "True"
    sim.edit("/api/v1/nodes/gpu-0", lambda n: n["metadata"]["labels"].update({"nvidia.com/gpu.count": "0"}))
    path, _ = next(iter(sim.cluster.pods()))
    sim.api.remove(path)
    await sim.converge()
    capacity = sim.condition("CapacityAvailable")
    assert (capacity["status"], capacity["reason"]) == ("False", "WaitingForCapacity")
    assert "same model on every GPU" in capacity["message"]
    assert sim.replicas() == {GPU_DEPLOYMENT: 1}


async def test_a_planner_that_fails_is_a_condition_of_that_service_only() -> None:
    def planner(problem: Problem) -> Plan:
        if problem.service == "other":
            raise ZeroDivisionError("u / 0")
        return plan(problem)

    sim = SimulatedOperator(planner)
    sim.add(*rm2_scene(), model_profile("other-g4dn", {"spec.model": "other"}), service("other"))
    await sim.converge()
    assert sim.service("other")["status"]["reason"] == "PlannerFailed"
    assert "ZeroDivisionError: u / 0" in sim.condition("Planned", "other")["message"]
    assert sim.condition("Ready")["status"] == "True"


async def test_pods_that_cannot_be_created_are_reported_in_the_words_of_their_deployment() -> None:
    sim = await converged()
    words = f'pods "{CPU_DEPLOYMENT}-6c5f-%s" is forbidden: error looking up service account default/nope'
    failure = {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate"}
    for suffix in ("x8k2p", "b4c5d"):
        failure["message"] = words % suffix
        sim.edit(deployment_path(CPU_DEPLOYMENT), lambda d: d["status"].update(conditions=[failure]))
        await sim.look(Key("default", "rm2"))
        capacity = sim.condition("CapacityAvailable")
        assert (capacity["status"], capacity["reason"]) == ("False", "InstancesRefused")
        assert capacity["message"] == f"{CPU_TYPE}: {words % ''}", "each try of the controller is another message"
    sim.edit(deployment_path(CPU_DEPLOYMENT), lambda d: d["status"].pop("conditions"))
    await sim.converge()
    assert sim.condition("CapacityAvailable")["status"] == "True"


def test_the_suffix_of_a_pod_is_left_out_however_long_the_names_are() -> None:
    long = "recommendation-model-large-production-g5-xlarge-1d7be2"

    def told(message: str) -> str | None:
        failure = {"type": "ReplicaFailure", "status": "True", "message": message}
        return replica_failure({"metadata": {"name": long}, "status": {"conditions": [failure]}})

    for suffix in ("x8k2p", "b4c5d"):
        generated = f"{long}-6c5f9d7b8-"[:58] + suffix
        assert told(f'pods "{generated}" is forbidden') == f'pods "{long}-6c5" is forbidden'
    assert told('serviceaccount "nope5" not found') == 'serviceaccount "nope5" not found'
