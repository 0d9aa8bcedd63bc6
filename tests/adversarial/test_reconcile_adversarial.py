"""Situations made to catch the reconciler: rivals for one GPU, stale records, unknown prices, wrong owners."""

from __future__ import annotations

from typing import Any

from hetserve.base.units import MicroDollarsPerHour
from hetserve.planning import plan
from hetserve.planning.plan import Plan
from hetserve.planning.problem import Problem
from hetserve.reconcile.deployments.build import deployment_name
from hetserve.transition.next_counts import next_counts
from hetserve.transition.staging import Instances, Limits, hourly_cost
from hetserve_operator.workqueue import Key
from sharing_scene import left_by_the_version_before, measure
from testing.builders import MEASURED, instance_type, model_profile, service
from testing.operator import SimulatedOperator, path_of
from testing.scenes import CPU_TYPE, GPU_TYPE, cpu_profile, cpu_type, node, rm2_scene

Json = dict[str, Any]
SERVICE = path_of(service("rm2"))


def rival(name: str, types: list[str] | None = None) -> list[Json]:
    """A service that may take GPUs or CPU nodes, with its profiles."""
    mix = [{"batch": 20, "weight": 1}]
    overrides: Json = {"spec.load.batchSizes": mix, "spec.budget.hourly": "1.2", "spec.planner": "kairos"}
    if types is not None:
        overrides["spec.instanceTypes"] = {"names": types}
    return [
        model_profile(f"{name}-gpu", {"spec.model": name}),
        cpu_profile(f"{name}-cpu", name),
        service(name, overrides),
    ]


async def test_two_services_after_the_same_gpus_come_to_rest() -> None:
    sim = SimulatedOperator()
    sim.add(node("gpu-0", GPU_TYPE, gpus=1), *(node(f"cpu-{i}", CPU_TYPE) for i in range(3)))
    sim.add(instance_type(overrides={"spec.price.hourly": "0.2"}), cpu_type(), *rival("one"), *rival("two"))
    await sim.converge(200)
    changes = [e["note"] for _, e in sim.api.items("events") if e["reason"] == "PlanChanged"]
    assert len(changes) <= 8, f"services that chase one another's GPU never serve: {changes}"
    held = [pod["metadata"]["labels"]["hetserve.io/service"] for _, pod in sim.cluster.pods()]
    assert sorted(set(held)) == ["one", "two"], "one service took what both could have shared"


def sharer(name: str) -> list[Json]:
    """A service whose one instance uses .7 of a GPU's compute, so that two share one and three do not."""
    overrides = {"spec.model": name, "spec.gpuMemory": "2Gi", **MEASURED, "spec.computeShare": "0.7"}
    wish = {"spec.instanceTypes": {"names": [GPU_TYPE]}, "spec.budget.hourly": "0.1", "spec.planner": "kairos"}
    return [model_profile(f"{name}-gpu", overrides), service(name, wish)]


async def test_services_share_a_gpu_as_far_as_its_compute_goes_and_come_to_rest() -> None:
    sim = SimulatedOperator()
    per_gib = instance_type(overrides={"spec.price": {"hourly": "0.04", "per": "GiB"}})
    sim.add(node("gpu-0", GPU_TYPE, gpus=1, pods=4), per_gib, *sharer("one"), *sharer("two"), *sharer("three"))
    await sim.converge(200)
    reasons = {name: sim.service(name)["status"]["reason"] for name in ("one", "two", "three")}
    assert sorted(reasons.values()) == ["AllInstancesReady", "AllInstancesReady", "CapacityTooLow"]
    (waiting,) = (name for name, reason in reasons.items() if reason == "CapacityTooLow")
    sim.api.remove(path_of(service(next(name for name in reasons if name != waiting))))
    await sim.converge(200)
    assert sim.condition("Ready", waiting)["status"] == "True", "compute that came free is not used"
    assert sim.condition("SharingKept", waiting)["status"] == "True"


async def test_services_of_before_that_share_a_gpu_get_there_when_all_are_measured() -> None:
    """What is measured first waits for a GPU without pods that declare nothing, and is not stuck."""
    sim = left_by_the_version_before()
    for spare in ("g2", "g3"):
        sim.api.remove(f"/api/v1/nodes/{spare}")
    sim.add(*(node(name, GPU_TYPE, gpus=1, pods=4) for name in ("g0", "g1")))
    plan = {"summary": f"1x{GPU_TYPE}", "hourlyCost": "0.048", "qps": "1.0", "planner": "flow", "inputs": "old"}
    plan["counts"] = [{"instanceType": GPU_TYPE, "count": 1}]  # type: ignore[assignment]
    _, two = sharer("two")
    sim.add({**two, "status": {"plan": plan}})
    sim.add(model_profile("two-gpu", {"spec.model": "two", "spec.gpuMemory": "2Gi"}))
    await sim.converge(200)
    asked = [pod["spec"]["containers"][0]["resources"]["limits"] for _, pod in sim.cluster.pods()]
    assert all("hetserve.io/gpu-memory" in one and "hetserve.io/gpu-compute" not in one for one in asked)
    assert len(asked) == 4, "each of two GPUs has an instance of both, by memory alone"
    measure(sim, "0.5")
    await sim.converge(200)
    sim.add(*sharer("two"))
    await sim.converge(300)
    for name in ("rm2", "two"):
        assert sim.condition("Ready", name)["status"] == "True"
        assert sim.condition("SharingUnmeasured", name)["status"] == "False"
        assert sim.condition("SharingKept", name)["status"] == "True"
    assert sim.service("rm2")["status"]["plan"]["counts"][0]["count"] == 2


async def test_a_gpu_that_becomes_free_goes_to_the_service_that_was_displaced() -> None:
    sim = SimulatedOperator()
    sim.add(node("gpu-0", GPU_TYPE, gpus=1), instance_type(), *rival("one", [GPU_TYPE]), *rival("two", [GPU_TYPE]))
    await sim.converge(200)
    reasons = {name: sim.service(name)["status"]["reason"] for name in ("one", "two")}
    assert sorted(reasons.values()) == ["AllInstancesReady", "CapacityTooLow"]
    winner = min(reasons, key=lambda name: reasons[name])
    sim.api.remove(path_of(service(winner)))
    await sim.converge(200)
    (left,) = reasons.keys() - {winner}
    assert sim.condition("Ready", left)["status"] == "True", "free capacity is not used until somebody edits the spec"


async def test_the_plan_is_recorded_before_any_deployment_follows_it() -> None:
    sim = SimulatedOperator()
    sim.add(*rm2_scene())
    await sim.look(Key("default", "rm2"))
    method, first = next(w for w in sim.api.writes if "/events" not in w[1])
    assert (method, first) == ("PATCH", f"{SERVICE}/status"), "after a crash nobody knows which plan runs"


async def test_a_recorded_plan_stays_when_the_planner_would_now_answer_otherwise() -> None:
    answers: list[Plan] = []

    def fickle(problem: Problem) -> Plan:
        answers.append(plan(problem))
        return answers[0] if len(answers) < 3 else answers[-1]

    sim = SimulatedOperator(fickle)
    sim.add(*rm2_scene())
    await sim.converge()
    before = sim.replicas()
    sim.restart()
    sim.add(node("gpu-9", GPU_TYPE, gpus=1))
    await sim.converge()
    assert sim.replicas() == before, "a restart of the operator moves instances"


async def test_a_record_that_somebody_has_emptied_is_made_again_without_moving_anything() -> None:
    sim = SimulatedOperator()
    sim.add(*rm2_scene())
    await sim.converge()
    before, made = sim.replicas(), sim.cluster.made
    sim.edit(SERVICE, lambda s: s.update(status={}))
    await sim.converge()
    assert (sim.replicas(), sim.cluster.made) == (before, made)
    assert sim.condition("Ready")["status"] == "True"


async def test_pods_of_a_type_whose_price_is_gone_block_growth_and_are_said() -> None:
    sim = SimulatedOperator()
    sim.cluster.terminating_ticks = 6
    sim.add(*rm2_scene())
    await sim.converge()
    sim.api.remove(path_of(cpu_type()))
    await sim.round()
    await sim.round()
    assert sim.condition("WithinBudget")["status"] == "Unknown"
    assert CPU_TYPE in sim.condition("WithinBudget")["message"]
    assert sim.replicas()[deployment_name("rm2", GPU_TYPE)] == 3, "grown while what it costs is not known"
    await sim.converge()
    assert sim.replicas() == {deployment_name("rm2", GPU_TYPE): 4}


def test_a_missing_price_is_not_zero() -> None:
    holdings = {"a": Instances(2, 2, 0, None), "b": Instances(0, 0, 0, MicroDollarsPerHour(1))}
    assert hourly_cost(holdings) is None
    stage = next_counts(
        {"b": 5}, holdings, Limits(MicroDollarsPerHour(100)), lambda counts: float(sum(counts.values()))
    )
    assert stage.counts == {"a": 0, "b": 0}, "what costs nobody knows how much goes before anything is added"
    assert hourly_cost({"a": Instances(2, 0, 0, None)}) == 0


async def test_a_deployment_whose_owner_was_struck_off_is_adopted_not_doubled() -> None:
    sim = SimulatedOperator()
    sim.add(*rm2_scene())
    await sim.converge()
    made = sim.cluster.made
    path = f"/apis/apps/v1/namespaces/default/deployments/{deployment_name('rm2', GPU_TYPE)}"
    sim.edit(path, lambda d: d["metadata"].pop("ownerReferences"))
    await sim.converge()
    owner = sim.api.objects[path]["metadata"]["ownerReferences"][0]
    assert owner["uid"] == sim.service()["metadata"]["uid"]
    assert sim.cluster.made == made


async def test_a_service_named_beyond_a_label_is_refused_in_words_and_stops_nobody() -> None:
    sim = SimulatedOperator()
    sim.add(*rm2_scene(), service("a.b", {"spec.model.name": "rm2"}))
    await sim.converge()
    assert sim.service("a.b")["status"]["reason"] == "SpecInvalid"
    assert "metadata.name must be a DNS label" in sim.condition("Planned", "a.b")["message"]
    assert sim.condition("Ready")["status"] == "True"


async def test_a_crd_that_drops_our_record_does_not_make_us_spin() -> None:
    sim = SimulatedOperator()
    sim.add(*rm2_scene())

    def prune(method: str, path: str, query: Any) -> None:
        if path.endswith("/status"):
            sim.api.objects[SERVICE]["status"]["plan"].pop("inputs", None)

    sim.api.after.append(prune)
    assert not await sim.look(Key("default", "rm2"))
    assert len([w for w in sim.api.writes if w[1].endswith("/status")]) <= 2, "a hot loop of status writes"
