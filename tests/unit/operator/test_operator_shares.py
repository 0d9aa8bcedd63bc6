"""Services that share GPUs: bookings, whole GPUs, measurements that come and change, and upgrades in between."""

from __future__ import annotations

from typing import Any

import pytest

from hetserve.base.units import parse_money
from hetserve.objects.gpu_sharing import parse_terms
from hetserve_operator.workqueue import Key
from sharing_scene import (
    GPU,
    MEMORY,
    NAME,
    PROFILE,
    SERVICE,
    SHARED_GPU,
    SHARING,
    annotated,
    asked,
    converged,
    counts,
    measure,
    on_terms,
    per_gib,
    pods,
    share_of,
    sim_with,
    terms,
)
from testing.builders import instance_type, model_profile
from testing.cluster import gpu_pod
from testing.operator import SimulatedOperator
from testing.scenes import GPU_TYPE, node

Json = dict[str, Any]
KEY = Key("default", "rm2")


def asked_by(pod: Json) -> Json:
    limits: Json = pod["spec"]["containers"][0]["resources"]["limits"]
    return limits


async def test_a_measured_service_shares_on_terms_and_the_plan_says_so() -> None:
    sim = await converged("0.5")
    assert (asked(sim), annotated(sim)) == (SHARED_GPU, terms("0.5"))
    assert counts(sim) == [on_terms("0.5")]
    assert sim.condition("SharingUnmeasured")["reason"] == "SharingMeasured"
    assert sim.condition("SharingKept")["reason"] == "WithinBookings"


async def test_a_new_service_on_an_unmeasured_profile_has_whole_gpus_until_it_is_measured() -> None:
    sim = await converged(None, budget="0.8")
    assert asked(sim) == {GPU: "1"}
    assert counts(sim) == [{"instanceType": GPU_TYPE, "count": 2, "sharing": "Exclusive"}]
    assert sim.service()["status"]["plan"]["hourlyCost"] == "0.720", "a whole GPU has 15 GiB"
    condition = sim.condition("SharingUnmeasured")
    assert (condition["status"], condition["reason"]) == ("True", "PlannedExclusive")
    assert "rm2-g4dn-xlarge" in condition["message"]
    assert "docs/how-to-measure-sharing.md" in condition["message"]
    assert "has no computeShare" in sim.condition("ProfileReady")["message"]

    measure(sim, "0.5")
    await sim.converge()
    assert asked(sim) == SHARED_GPU
    assert counts(sim) == [on_terms("0.5", 5)], "the same money buys shares of more GPUs"
    assert sim.condition("SharingUnmeasured")["status"] == "False"
    assert sim.condition("Ready")["status"] == "True"


async def test_exclusive_instances_are_paid_whole_until_they_are_gone() -> None:
    sim = await converged(None, budget="0.8")
    sim.cluster.terminating_ticks = 3
    measure(sim, "0.5")
    before = sim.replicas()[NAME]
    for _ in range(40):
        there = [GPU in asked_by(pod) for _, pod in sim.cluster.pods()]
        live = sum("deletionTimestamp" not in pod["metadata"] for _, pod in sim.cluster.pods())
        await sim.look(KEY)
        wanted = sim.replicas()[NAME]
        paid = sum(360_000 if whole else 144_000 for whole in there) + max(0, wanted - live) * 144_000
        assert wanted <= before or paid <= 800_000, "shares are bought with the money of whole GPUs that still run"
        before = wanted
        sim.cluster.tick()
    assert len(pods(sim)) == 5


async def test_an_exclusive_service_has_and_pays_whole_gpus_whatever_was_measured() -> None:
    sim = await converged("0.5", budget="0.8", sharing="Exclusive")
    assert asked(sim) == {GPU: "1"}
    assert sim.service()["status"]["plan"]["hourlyCost"] == "0.720"
    assert "costs 0.720 $/h" in sim.condition("WithinBudget")["message"]
    assert sim.condition("SharingUnmeasured")["status"] == "False"
    assert "spec.sharing is Exclusive" in sim.condition("ProfileReady")["message"]


async def test_a_factor_that_nobody_tolerates_makes_instances_exclusive_and_the_status_says_why() -> None:
    sim = sim_with("0.5", budget="0.8")
    entry = {"model": "other", "batch": 8, "factor": "1.8"}
    sim.edit(PROFILE, lambda profile: profile["spec"].update(interference=[entry]))
    await sim.converge()
    assert asked(sim) == {GPU: "1"}
    assert sim.condition("SharingUnmeasured")["status"] == "False", "it was measured"
    assert "interference factor 1.8: is above the greatest slow-down 1.75" in sim.condition("ProfileReady")["message"]


async def test_under_mps_a_factor_that_nobody_measured_is_said_to_be_a_default() -> None:
    sim = sim_with("0.5", budget="0.8")
    sim.edit(PROFILE, lambda profile: profile["spec"].update(sharingMode="MPS"))
    sim.settings = sim.settings.__class__(max_slowdown=1_100_000)  # type: ignore[arg-type]
    sim.restart()
    await sim.converge()
    assert asked(sim) == {GPU: "1"}
    why = sim.condition("ProfileReady")["message"]
    assert "interference factor 1.18: is above the greatest slow-down 1.1" in why
    assert "no interference is measured, which counts so under MPS: measure it" in why


@pytest.mark.parametrize("budget", ["0.8", "0.3"])
async def test_instances_keep_their_bookings_where_a_profile_loses_its_measurement(budget: str) -> None:
    sim = await converged("0.5", budget=budget)
    there, planned = pods(sim), counts(sim)
    sim.edit(PROFILE, lambda profile: [profile["spec"].pop(key) for key in ("computeShare", "sharingMode")])
    await sim.converge()
    assert (pods(sim), asked(sim), counts(sim)) == (there, SHARED_GPU, planned)
    condition = sim.condition("SharingUnmeasured")
    assert (condition["status"], condition["reason"]) == ("True", "BookingsKept")
    assert "rm2-g4dn-xlarge" in condition["message"]

    measure(sim, "0.5")
    await sim.converge()
    assert (pods(sim), counts(sim)) == (there, planned)
    assert sim.condition("SharingUnmeasured")["status"] == "False"


async def test_looser_terms_change_no_template_while_the_counts_stay() -> None:
    sim = await converged("0.5")
    there = pods(sim)
    measure(sim, "0.2")
    await sim.converge()
    assert (asked(sim), annotated(sim)) == (SHARED_GPU, terms("0.5"))
    assert pods(sim) == there, "instances were restarted to free room that nobody promised"
    assert counts(sim) == [on_terms("0.5")]
    sim.restart()
    await sim.converge()
    assert pods(sim) == there


async def test_a_larger_share_is_rolled_out_one_instance_at_a_time_within_the_budget() -> None:
    sim = await converged("0.5")
    measure(sim, "0.8")
    for _ in range(20):
        await sim.round()
        live = [p for _, p in sim.cluster.pods() if "deletionTimestamp" not in p["metadata"]]
        assert len(live) <= 2, "a surge costs more than the budget"
        paid = parse_money(sim.condition("WithinBudget")["message"].split()[3])
        assert paid <= 300_000 + 144_000, "more than one pod terminates beside its successor"
    await sim.converge()
    assert (asked(sim), annotated(sim)) == (SHARED_GPU, terms("0.8"))
    assert counts(sim) == [on_terms("0.8")]
    assert sim.condition("Ready")["status"] == "True"


@pytest.mark.parametrize("change", ["a part of the memory", "a price per GiB"])
async def test_instances_with_whole_gpus_never_begin_to_share_without_a_booking(change: str) -> None:
    sim = sim_with(None, budget="1.1")
    if change == "a part of the memory":
        sim.edit(PROFILE, lambda profile: profile["spec"].pop("gpuMemory"))
    else:
        sim.add(instance_type(GPU_TYPE))
    await sim.converge()
    assert asked(sim) == {MEMORY: "15360"}, "not whole by its type, so this shows nothing"
    if change == "a part of the memory":
        sim.edit(PROFILE, lambda profile: profile["spec"].update(gpuMemory="6Gi"))
    else:
        sim.add(per_gib())
    await sim.converge()
    assert asked(sim) == {GPU: "1"}
    assert sim.condition("SharingUnmeasured")["reason"] == "PlannedExclusive"
    assert sim.condition("Ready")["status"] == "True"


@pytest.mark.parametrize("change", ["a larger share", "a whole GPU"])
async def test_what_runs_stays_where_its_successor_would_find_no_place(change: str) -> None:
    sim = await converged("0.5", budget="0.8", gpus=2)
    for number in range(2):
        raw = gpu_pod(
            f"other-{number}",
            model="other",
            phase="Running",
            node=f"g{number}",
            gpu="0",
            compute=100,
            memory_mib=1024,
        )
        raw["metadata"]["annotations"][SHARING] = terms("0.5", "1.1")
        sim.api.put(f"/api/v1/namespaces/default/pods/other-{number}", {"apiVersion": "v1", "kind": "Pod", **raw})
    await sim.converge()
    there = pods(sim)
    if change == "a larger share":
        measure(sim, "0.65")
    else:
        sim.edit(SERVICE, lambda s: s["spec"].update(sharing="Exclusive"))
    await sim.converge()
    assert pods(sim) == there, "instances are gone for others that cannot be placed"
    assert sim.condition("Feasible")["reason"] == "CapacityTooLow"
    assert "what runs stays" in sim.condition("Feasible")["message"]
    assert sim.condition("Ready")["status"] == "False"
    for number in range(2):
        sim.api.remove(f"/api/v1/namespaces/default/pods/other-{number}")
    await sim.converge()
    assert sim.condition("Ready")["status"] == "True"
    assert asked(sim) == (SHARED_GPU if change == "a larger share" else {GPU: "1"})


async def test_a_changed_plan_has_the_terms_that_are_measured_now() -> None:
    sim = await converged("0.5")
    measure(sim, "0.2")
    await sim.converge()
    sim.edit(SERVICE, lambda s: s["spec"]["budget"].update(hourly="0.5"))
    await sim.converge()
    assert counts(sim) == [on_terms("0.2", 3)]
    assert annotated(sim) == terms("0.2")


@pytest.mark.parametrize("edited", [terms("0.1"), terms("0.5", "9"), "nonsense"])
async def test_terms_that_somebody_made_looser_in_the_record_are_made_right(edited: str) -> None:
    sim = await converged("0.5")
    there = pods(sim)
    sim.edit(SERVICE, lambda s: s["status"]["plan"]["counts"][0].update(gpuSharing=edited))
    await sim.converge()
    assert (counts(sim), annotated(sim), pods(sim)) == ([on_terms("0.5")], terms("0.5"), there)


@pytest.mark.parametrize("sigma", [1_250_000, 2_500_000])
async def test_a_recorded_plan_keeps_its_tolerance_where_the_installation_sets_another(sigma: int) -> None:
    sim = await converged("0.5")
    there, plan = pods(sim), sim.service()["status"]["plan"]
    sim.settings = sim.settings.__class__(max_slowdown=sigma)  # type: ignore[arg-type]
    sim.restart()
    await sim.converge()
    assert (pods(sim), sim.service()["status"]["plan"]) == (there, plan)
    sim.edit(SERVICE, lambda s: s["spec"]["budget"].update(hourly="0.5"))
    await sim.converge()
    assert counts(sim) == [on_terms("0.5", 3, tolerance=str(sigma / 1_000_000).rstrip("0"))]


async def test_copies_on_one_gpu_stay_where_they_are_to_be_apart_and_find_no_other() -> None:
    sim = sim_with("0.5", gpus=1)
    itself = [{"model": "rm2", "batch": 8, "factor": "1.5"}]
    sim.edit(PROFILE, lambda profile: profile["spec"].update(interference=itself))
    sim.add(node("g0", GPU_TYPE, gpus=1, pods=4))
    sim.edit(SERVICE, lambda s: s["spec"].update(ownCopies="Allowed"))
    await sim.converge()
    there = pods(sim)
    assert len(there) == 2
    fixed = {"objective": "MinCost", "planner": "ilp", "load": {"expectedQPS": "180"}}
    sim.edit(SERVICE, lambda s: s["spec"].update(ownCopies="Apart", budget=None, **fixed))
    await sim.converge()
    feasible = sim.condition("Feasible")
    assert (pods(sim), feasible["status"], feasible["reason"]) == (there, "False", "CapacityTooLow")
    sim.add(node("g1", GPU_TYPE, gpus=1, pods=4))
    await sim.converge()
    assert sim.condition("Ready")["status"] == "True"
    assert {pod["spec"]["nodeName"] for _, pod in sim.cluster.pods()} == {"g0", "g1"}


async def test_kept_terms_that_find_no_place_any_more_give_way_to_those_that_do() -> None:
    sim = sim_with("0.9", gpus=1, budget="0.15")
    sim.add(node("g1", GPU_TYPE, gpus=1, pods=4))
    sim.add(gpu_pod("x", node="g1", gpu="0", model="other", sharing=parse_terms(terms("0.9")), phase="Running"))
    await sim.converge()
    measure(sim, "0.5")
    await sim.converge()
    assert counts(sim) == [on_terms("0.9", 1)]
    for path, raw in list(sim.cluster.pods()):
        if raw["spec"].get("nodeName") == "g0":
            sim.api.remove(path)
    sim.api.remove("/api/v1/nodes/g0")
    await sim.converge()
    assert (counts(sim), annotated(sim)) == ([on_terms("0.5", 1)], terms("0.5"))
    assert sim.condition("Ready")["status"] == "True"


def neighbour(sim: SimulatedOperator, **given: Any) -> str:
    """Binds a pod of another model beside the first instance; returns its path."""
    first = next(pod for _, pod in sim.cluster.pods() if pod["metadata"]["labels"].get("hetserve.io/service"))
    beside = {"node": first["spec"]["nodeName"], "gpu": first["metadata"]["annotations"]["hetserve.io/gpu"]}
    sharing = given.pop("sharing", None)
    raw = gpu_pod("old", model="other", phase="Running", **beside, **given)
    raw["metadata"]["annotations"] |= {} if sharing is None else {SHARING: sharing}
    sim.api.put("/api/v1/namespaces/default/pods/old", {"apiVersion": "v1", "kind": "Pod", **raw})
    return "/api/v1/namespaces/default/pods/old"


@pytest.mark.parametrize(
    ("given", "reason", "words"),
    [
        ({}, "UndeclaredNeighbour", "beside default/old"),
        ({"compute": 5}, "OverBooked", "booked by 105 %"),
        ({"compute": 100, "sharing": terms("0.5", "1", "1.9")}, "OverBooked", "booked by 109 %"),
        ({"compute": 100, "sharing": terms("0.5", "2", "1.9")}, "OverBooked", "booked by 109 %"),
    ],
)
async def test_a_gpu_shared_past_what_is_tolerated_withdraws_the_promise_until_the_pod_is_gone(
    given: Json, reason: str, words: str
) -> None:
    sim = await converged("0.5")
    path = neighbour(sim, **given)
    await sim.converge()
    kept = sim.condition("SharingKept")
    assert (kept["status"], kept["reason"]) == ("False", reason)
    assert "GPU 0 of node g0" in kept["message"]
    assert words in kept["message"]
    ready = sim.condition("Ready")
    assert ready["status"] == "True"
    assert "the SLO is not promised" in ready["message"]
    assert any(e["reason"] == reason for _, e in sim.api.items("events"))
    sim.api.remove(path)
    await sim.converge()
    assert sim.condition("SharingKept")["status"] == "True"
    assert sim.condition("Ready")["message"] == "all 2 instances are ready"


async def test_a_neighbour_that_is_tolerated_is_no_news() -> None:
    sim = await converged("0.5")
    neighbour(sim, compute=100, sharing=terms("0.9", "1.75", "1.75"))
    await sim.converge()
    assert sim.condition("SharingKept")["status"] == "True"


async def test_a_neighbour_that_takes_longer_than_it_tolerates_breaks_no_promise_of_others() -> None:
    sim = await converged("0.5")
    neighbour(sim, compute=100, sharing=terms("0.9", "1"))
    await sim.converge()
    assert sim.condition("SharingKept")["status"] == "True"


@pytest.mark.parametrize("sigma", [1_500_000, 2_500_000])
async def test_another_sigma_changes_nothing_of_a_service_that_may_use_another_type_too(sigma: int) -> None:
    sim = sim_with("0.5")
    dear, profile = per_gib("0.2"), model_profile("rm2-dear", {"spec.instanceType": "dear", "spec.gpuMemory": "6Gi"})
    dear["metadata"]["name"] = "dear"
    profile["spec"] |= share_of("0.5")
    sim.add(dear, profile, node("d0", "dear", gpus=1))
    await sim.converge()
    there, plan = pods(sim), sim.service()["status"]["plan"]
    assert counts(sim) == [on_terms("0.5")]
    sim.settings = sim.settings.__class__(max_slowdown=sigma)  # type: ignore[arg-type]
    sim.restart()
    await sim.converge()
    assert (pods(sim), sim.service()["status"]["plan"]) == (there, plan)


async def test_copies_stay_on_their_gpu_where_a_profile_loses_its_measurement() -> None:
    sim = sim_with("0.3", gpus=1)
    sim.edit(PROFILE, lambda p: p["spec"].update(interference=[{"model": "rm2", "batch": 8, "factor": "1.1"}]))
    sim.edit(SERVICE, lambda s: s["spec"].update(ownCopies="Allowed"))
    await sim.converge()
    there, stated = pods(sim), terms("0.3", rm2="1.1")
    assert annotated(sim) == stated
    sim.edit(PROFILE, lambda p: [p["spec"].pop(key) for key in ("computeShare", "sharingMode", "interference")])
    await sim.converge()
    assert (annotated(sim), pods(sim)) == (stated, there)


async def test_the_limit_of_memory_under_mps_stays_where_a_profile_loses_its_measurement_and_more_come() -> None:
    sim = sim_with("0.5")
    sim.edit(PROFILE, lambda profile: profile["spec"].update(sharingMode="MPS"))
    await sim.converge()
    there = pods(sim)
    sim.edit(PROFILE, lambda profile: [profile["spec"].pop(key) for key in ("computeShare", "sharingMode")])
    await sim.converge()
    assert pods(sim) == there
    sim.edit(SERVICE, lambda s: s["spec"]["budget"].update(hourly="0.5"))
    await sim.converge()
    (entry,) = counts(sim)
    assert (entry["count"], entry["sharingMode"]) == (3, "MPS")
    assert there < pods(sim)
