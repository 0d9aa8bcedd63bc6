"""Plans that book percent of compute, as the version before counting by pairs recorded them: kept until they change."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import pytest

from hetserve.base.units import Millionths
from hetserve.planning.tenancy import SharingRule
from hetserve.reconcile.plans import bookings, decision
from sharing_scene import (
    BY_PERCENT,
    COMPUTE,
    DEPLOYMENT,
    MEMORY,
    PROFILE,
    SERVICE,
    annotated,
    asked,
    counts,
    left_by_the_version_before,
    measure,
    on_terms,
    pods,
    sim_with,
    terms,
)
from testing.cluster import gpu_pod
from testing.operator import SimulatedOperator
from testing.scenes import GPU_TYPE, node

Json = dict[str, Any]
BY_40_PERCENT = {MEMORY: "6144", COMPUTE: "40"}


def booked(compute: int = 40, count: int = 2) -> Json:
    return {"instanceType": GPU_TYPE, "count": count, "sharing": "Shared", "gpuCompute": compute}


async def upgraded() -> SimulatedOperator:
    sim = left_by_the_version_before(BY_PERCENT)
    await sim.converge()
    return sim


@pytest.mark.parametrize("sigma", [1_250_000, 1_750_000, 3_000_000])
async def test_an_upgrade_changes_neither_plan_nor_deployment_nor_pod(sigma: int) -> None:
    sim = left_by_the_version_before(BY_PERCENT)
    sim.settings = sim.settings.__class__(max_slowdown=sigma)  # type: ignore[arg-type]
    sim.restart()
    before, plan, there = copy.deepcopy(sim.api.objects[DEPLOYMENT]), sim.service()["status"]["plan"], pods(sim)
    assert plan["counts"] == [booked()], "not as before, so this shows nothing"
    await sim.converge()
    assert (sim.api.objects[DEPLOYMENT], sim.service()["status"]["plan"], pods(sim)) == (before, plan, there)
    assert sim.condition("Ready")["status"] == "True"
    assert {path.split("/")[-1] for _, path in sim.api.writes if "/events" not in path} <= {"status"}


async def test_a_plan_whose_counts_change_shares_on_terms() -> None:
    sim = await upgraded()
    sim.edit(SERVICE, lambda s: s["spec"]["budget"].update(hourly="0.5"))
    await sim.converge()
    assert counts(sim) == [on_terms("0.5", 3)]
    assert annotated(sim) == terms("0.5")
    assert len(pods(sim)) == 3


async def test_a_smaller_share_changes_no_template() -> None:
    sim = await upgraded()
    there = pods(sim)
    measure(sim, "0.2")
    await sim.converge()
    assert (counts(sim), asked(sim), pods(sim)) == ([booked()], BY_40_PERCENT, there)
    sim.restart()
    await sim.converge()
    assert (counts(sim), asked(sim), pods(sim)) == ([booked()], BY_40_PERCENT, there)


async def test_a_share_beyond_the_booking_makes_instances_share_on_terms() -> None:
    sim = await upgraded()
    measure(sim, "0.8")
    await sim.converge()
    assert (counts(sim), annotated(sim)) == ([on_terms("0.8")], terms("0.8"))


async def test_instances_keep_their_percent_where_a_profile_loses_its_measurement() -> None:
    sim = await upgraded()
    there = pods(sim)
    sim.edit(PROFILE, lambda profile: [profile["spec"].pop(key) for key in ("computeShare", "sharingMode")])
    await sim.converge()
    assert (counts(sim), asked(sim), pods(sim)) == ([booked()], BY_40_PERCENT, there)
    assert sim.condition("SharingUnmeasured")["reason"] == "BookingsKept"
    measure(sim, "0.5")
    await sim.converge()
    assert (counts(sim), pods(sim)) == ([booked()], there)


async def test_a_booking_that_somebody_made_smaller_in_the_record_is_made_right() -> None:
    sim = await upgraded()
    there = pods(sim)
    sim.edit(SERVICE, lambda s: s["status"]["plan"]["counts"][0].update(gpuCompute=5))
    await sim.converge()
    assert (counts(sim), asked(sim), pods(sim)) == ([booked()], BY_40_PERCENT, there)


async def test_more_book_percent_where_instances_of_the_other_kind_find_no_place() -> None:
    """Every GPU has a pod that books percent: beside it nobody shares on terms."""
    sim = await upgraded()
    for number in range(3, 6):
        sim.api.remove(f"/api/v1/nodes/g{number}")
    for number in range(3):
        raw = gpu_pod(
            f"other-{number}", model="other", compute=60, memory_mib=1024, node=f"g{number}", gpu="0", phase="Running"
        )
        sim.api.put(f"/api/v1/namespaces/default/pods/other-{number}", {"apiVersion": "v1", "kind": "Pod", **raw})
    await sim.converge()
    there = pods(sim)
    sim.edit(SERVICE, lambda s: s["spec"]["budget"].update(hourly="0.5"))
    await sim.converge()
    assert (asked(sim), counts(sim)) == (BY_40_PERCENT, [booked(count=3)])
    assert there < pods(sim)
    assert sim.condition("Ready")["status"] == "True"
    for number in range(3):
        sim.api.remove(f"/api/v1/namespaces/default/pods/other-{number}")
    there = pods(sim)
    await sim.converge()
    assert (counts(sim), pods(sim)) == ([booked(count=3)], there)
    sim.edit(SERVICE, lambda s: s["spec"]["budget"].update(hourly="0.3"))
    await sim.converge()
    assert counts(sim) == [on_terms("0.5", 2)]


async def test_an_edit_that_leaves_the_counts_leaves_the_kind() -> None:
    sim = await upgraded()
    there = pods(sim)
    sim.edit(SERVICE, lambda s: s["spec"]["budget"].update(hourly="0.35"))
    await sim.converge()
    assert (counts(sim), pods(sim)) == ([booked()], there)
    plan = sim.service()["status"]["plan"]
    sim.restart()
    await sim.converge()
    assert sim.service()["status"]["plan"] == plan


async def test_an_upgrade_changes_nothing_where_the_installation_had_set_another_sigma(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sim = sim_with("0.5")
    sim.settings = sim.settings.__class__(max_slowdown=1_500_000)  # type: ignore[arg-type]

    def at_its_sigma(*given: Any) -> SharingRule:
        return replace(bookings.rule_of(*given), by_percent=True, booked_slowdown=Millionths(1_500_000))

    with monkeypatch.context() as before:
        before.setattr(decision, "rule_of", at_its_sigma)
        before.setattr(decision, "rules_in_force", lambda *_: [])
        await sim.converge()
    assert counts(sim) == [booked(35)], "not as before, so this shows nothing"
    there, plan = pods(sim), sim.service()["status"]["plan"]
    sim.restart()
    await sim.converge()
    assert (sim.service()["status"]["plan"], pods(sim)) == (plan, there)


async def test_the_other_way_round_nothing_is_rolled_before_an_older_extender_is_gone() -> None:
    """After a rollback of the extender alone: the plan in force is followed, on GPUs that each instance holds whole."""
    sim = await upgraded()
    sim.edit(SERVICE, lambda s: s["spec"]["budget"].update(hourly="0.5"))
    await sim.converge()
    there = pods(sim)
    sim.cluster.counts_pairs = False
    sim.restart()
    await sim.converge()
    assert (counts(sim), pods(sim)) == ([on_terms("0.5", 3)], there)
    sim.edit(SERVICE, lambda s: s["spec"]["budget"].update(hourly="0.8"))
    await sim.converge()
    assert sim.condition("Planned")["reason"] == "ComputeNotBooked"
    assert (counts(sim), pods(sim)) == ([on_terms("0.5", 3)], there)


async def test_instances_of_percent_do_not_give_way_to_fewer_on_terms(monkeypatch: pytest.MonkeyPatch) -> None:
    """The money is for three, and there are two GPUs; a third is all that takes an instance on terms."""
    sim = sim_with("0.5", budget="0.5", gpus=2)
    with monkeypatch.context() as before:
        before.setattr(decision, "rule_of", lambda *given: replace(bookings.rule_of(*given), by_percent=True))
        before.setattr(decision, "rules_in_force", lambda *_: [])
        await sim.converge()
    assert counts(sim) == [booked()], "not as before, so this shows nothing"
    sim.restart()
    for number in range(2):
        raw = gpu_pod(
            f"other-{number}", model="other", compute=60, memory_mib=1024, node=f"g{number}", gpu="0", phase="Running"
        )
        sim.api.put(f"/api/v1/namespaces/default/pods/other-{number}", {"apiVersion": "v1", "kind": "Pod", **raw})
    sim.add(node("g2", GPU_TYPE, gpus=1))
    there = pods(sim)
    await sim.converge()
    assert (asked(sim), counts(sim)) == (BY_40_PERCENT, [booked(count=3)])
    assert there < pods(sim)
