"""Instances of before an upgrade, extenders that do not count pairs yet, and rollbacks: what runs stays."""

from __future__ import annotations

import copy
from typing import Any

from sharing_scene import (
    DEPLOYMENT,
    MEMORY,
    NAME,
    PROFILE,
    SERVICE,
    SHARED_GPU,
    add_another_of_before,
    annotated,
    asked,
    converged,
    counts,
    left_by_the_version_before,
    measure,
    on_terms,
    per_gib,
    pods,
    sim_with,
    terms,
)
from testing.builders import instance_type
from testing.scenes import GPU_TYPE

Json = dict[str, Any]


async def test_an_upgrade_rolls_nothing_that_declares_no_compute() -> None:
    sim = left_by_the_version_before()
    before, plan, there = copy.deepcopy(sim.api.objects[DEPLOYMENT]), sim.service()["status"]["plan"], pods(sim)
    await sim.converge()
    assert sim.api.objects[DEPLOYMENT] == before, "the upgrade has written a Deployment whose profile is unmeasured"
    assert pods(sim) == there
    assert sim.service()["status"]["plan"] == plan, "the plan of before is planned anew"
    condition = sim.condition("SharingUnmeasured")
    assert (condition["status"], condition["reason"]) == ("True", "InstancesUndeclared")
    assert "rm2-g4dn-xlarge" in condition["message"]
    assert "docs/how-to-measure-sharing.md" in condition["message"]
    assert sim.condition("Ready")["status"] == "True"
    assert {path.split("/")[-1] for _, path in sim.api.writes if "/events" not in path} == {"status"}


async def test_instances_of_before_an_upgrade_are_rolled_when_they_are_measured() -> None:
    sim = left_by_the_version_before()
    await sim.converge()
    measure(sim, "0.5")
    await sim.converge()
    assert asked(sim) == SHARED_GPU
    assert counts(sim) == [on_terms("0.5")]
    assert sim.condition("SharingUnmeasured")["status"] == "False"
    assert sim.condition("Ready")["status"] == "True"


async def test_an_undeclared_deployment_that_somebody_deletes_comes_back_as_it_was() -> None:
    sim = left_by_the_version_before()
    await sim.converge()
    before = sim.api.objects[DEPLOYMENT]["spec"]["template"]
    sim.api.remove(DEPLOYMENT)
    sim.cluster.settle(5)
    assert not pods(sim), "the Deployment is back before its pods are gone, so this shows nothing"
    await sim.converge()
    assert sim.api.objects[DEPLOYMENT]["spec"]["template"] == before
    assert sim.condition("Ready")["status"] == "True"


async def test_instances_without_a_record_keep_their_template_too() -> None:
    sim = left_by_the_version_before()
    before, there = sim.api.objects[DEPLOYMENT]["spec"]["template"], pods(sim)
    sim.edit(SERVICE, lambda s: s.update(status={}))
    await sim.converge()
    assert (sim.api.objects[DEPLOYMENT]["spec"]["template"], pods(sim)) == (before, there)


async def test_instances_of_before_that_need_all_of_their_gpu_keep_their_templates() -> None:
    sim = sim_with(None)
    sim.edit(PROFILE, lambda profile: profile["spec"].update(gpuMemory="15Gi"))
    sim.add(instance_type(GPU_TYPE))
    sim.edit(SERVICE, lambda s: s["spec"]["budget"].update(hourly="1.1"))
    await sim.converge()
    there = pods(sim)
    sim.add(per_gib("0.0351"))
    await sim.converge()
    assert (asked(sim), pods(sim)) == ({MEMORY: "15360"}, there)


async def test_a_service_measured_before_its_neighbours_keeps_what_runs_until_they_are_measured_too() -> None:
    sim = left_by_the_version_before()
    add_another_of_before(sim, "abc")
    for number in (2, 3):
        sim.api.remove(f"/api/v1/nodes/g{number}")
    await sim.converge()
    there = pods(sim)
    assert len(there) == 4
    measure(sim, "0.5")
    await sim.converge()
    assert pods(sim) == there, "instances are gone for others that wait for GPUs without undeclared pods"
    assert sim.condition("Feasible")["reason"] == "CapacityTooLow"
    assert "what runs stays" in sim.condition("Feasible")["message"]
    sim.edit(PROFILE.replace("rm2", "abc"), lambda p: p["spec"].update(computeShare="0.5", sharingMode="TimeSlicing"))
    await sim.converge()
    for name in ("rm2", "abc"):
        assert sim.condition("Ready", name)["status"] == "True"
        assert sim.service(name)["status"]["plan"]["counts"] == [on_terms("0.5")]


async def test_no_plan_with_shared_gpus_is_made_before_the_extender_counts_pairs() -> None:
    sim = sim_with("0.5")
    sim.cluster.counts_pairs = False
    await sim.converge()
    planned = sim.condition("Planned")
    assert (planned["status"], planned["reason"]) == ("False", "ComputeNotBooked")
    assert sim.replicas() == {}
    sim.cluster.counts_pairs = True
    await sim.converge()
    assert (asked(sim), sim.condition("Ready")["status"]) == (SHARED_GPU, "True")


async def test_what_runs_stays_while_an_upgraded_operator_waits_for_the_extender() -> None:
    sim = left_by_the_version_before()
    sim.cluster.counts_pairs = False
    measure(sim, "0.5")
    there, before = pods(sim), copy.deepcopy(sim.api.objects[DEPLOYMENT])
    await sim.converge()
    assert (pods(sim), sim.api.objects[DEPLOYMENT]) == (there, before)
    assert sim.condition("Planned")["reason"] == "ComputeNotBooked"
    sim.cluster.counts_pairs = True
    await sim.converge()
    assert (asked(sim), sim.condition("Ready")["status"]) == (SHARED_GPU, "True")


async def test_a_plan_with_shared_gpus_is_kept_up_while_an_older_extender_leads() -> None:
    sim = await converged("0.5")
    sim.cluster.counts_pairs = False
    sim.api.remove(DEPLOYMENT)
    await sim.converge()
    assert (asked(sim), sim.replicas()) == (SHARED_GPU, {NAME: 2})
    assert sim.condition("Ready")["status"] == "True"


async def test_after_a_rollback_and_an_upgrade_instances_declare_compute_again() -> None:
    """The version before renders templates without compute, and writes a plan without bookings."""
    sim = left_by_the_version_before()
    sim.edit(PROFILE, lambda profile: profile["spec"].update(computeShare="0.5", sharingMode="TimeSlicing"))
    await sim.converge()
    assert asked(sim) == SHARED_GPU
    old = left_by_the_version_before()
    for path in (DEPLOYMENT, SERVICE):
        spec = {**old.api.objects[path], "metadata": sim.api.objects[path]["metadata"]}
        sim.api.put(path, spec)
    sim.edit(
        DEPLOYMENT, lambda d: d["metadata"].update(annotations=old.api.objects[DEPLOYMENT]["metadata"]["annotations"])
    )
    sim.cluster.settle(5)
    assert asked(sim) == {MEMORY: "6144"}, "not rolled back, so this shows nothing"
    sim.restart()
    await sim.converge()
    assert (annotated(sim), counts(sim)) == (terms("0.5"), [on_terms("0.5")])
    assert sim.condition("Ready")["status"] == "True"
