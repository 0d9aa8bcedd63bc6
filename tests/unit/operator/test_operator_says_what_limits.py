"""What a service that follows its load says of limits, and of a load that is not carried, on a simulated cluster."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from documented_conditions import DOCS
from hetserve.api.conditions import ConditionType
from hetserve.base.units import QPS
from hetserve.demand.observed import Demand, Freshness, RateSample
from hetserve_operator.workqueue import Key
from kstatus import ONE_OF, kstatus, the_one_that_is_true
from measured_demand import steady, unknown
from scaled_scene import PlansLater, scene
from testing.builders import instance_type, service
from testing.operator import SimulatedOperator, path_of

Json = dict[str, Any]
SERVICE, T4 = path_of(service("rm2")), path_of(instance_type("t4"))
ONE_A_DAY = {"lookAhead": "None", "policies": [{"type": "Instances", "value": 1, "period": "30m"}]}
FULL = "0/12 nodes are available: 12 Insufficient memory"


async def serving(sim: SimulatedOperator | None = None, scaling: Json | None = None, **spec: Any) -> Any:
    """At 30 queries/s."""
    sim = sim or SimulatedOperator()
    sim.add(*scene(scaling, launch="20s", **spec))
    sim.demand = steady(30)
    await sim.converge()
    return sim


def edit(sim: SimulatedOperator, **spec: Any) -> None:
    sim.edit(SERVICE, lambda raw: raw["spec"].update(spec))


def said(sim: SimulatedOperator, kind: str) -> tuple[str, str]:
    found = sim.condition(kind)
    return found["status"], found["reason"]


def limited(sim: SimulatedOperator) -> tuple[str, str]:
    return said(sim, "ScalingLimited")


def events(sim: SimulatedOperator) -> list[str]:
    return [event["note"] for _, event in sim.api.items("events") if event["reason"] == "ScalingLimited"]


def ready(sim: SimulatedOperator) -> Any:
    raw = sim.service()
    assert kstatus(raw) == ONE_OF[the_one_that_is_true(raw["status"])]
    return sim.condition("Ready")


# Ready


async def test_with_a_pause_ready_is_false_and_stalled_while_the_load_is_more_than_what_runs_holds() -> None:
    sim = await serving()
    edit(sim, pause="ScaleUp")
    sim.demand = steady(60)
    await sim.converge()
    found = ready(sim)
    assert (found["status"], found["reason"]) == ("False", "LoadNotCarried")
    assert found["message"].startswith("4 of 4 instances are ready and hold 40.0 q/s, the load is 60.0 q/s")
    assert "spec.pause is ScaleUp" in found["message"]
    assert said(sim, "Stalled") == ("True", "LoadNotCarried")
    assert sim.service()["status"]["reason"] == "LoadNotCarried"
    edit(sim, pause="None")
    await sim.converge()
    assert said(sim, "Ready") == ("True", "AllInstancesReady")


async def test_steps_that_come_later_leave_a_service_reconciling_until_they_carry_the_load() -> None:
    sim = await serving(scaling={"scaleUp": ONE_A_DAY})
    sim.demand = steady(60)
    await sim.converge()
    found = ready(sim)
    assert (found["status"], found["reason"]) == ("False", "LoadNotCarried")
    assert found["message"] == "5 of 5 instances are ready and hold 50.0 q/s, the load is 60.0 q/s"
    assert said(sim, "Reconciling") == ("True", "LoadNotCarried")
    assert limited(sim) == ("True", "StepPolicyLimits")
    sim.clock += 1900
    await sim.converge()
    assert said(sim, "Ready") == ("True", "AllInstancesReady"), "six hold 60 queries/s"


async def test_ready_ends_at_what_is_held_and_not_at_the_saturation() -> None:
    sim = await serving()
    edit(sim, pause="ScaleUp")
    for qps, status in ((39.9, "True"), (40.1, "False"), (39.9, "True")):
        sim.demand = steady(qps)
        await sim.converge()
        assert ready(sim)["status"] == status, qps


async def test_digits_of_a_load_that_is_not_carried_write_nothing() -> None:
    sim = await serving()
    edit(sim, pause="ScaleUp")
    sim.demand = steady(60)
    await sim.converge()
    before = len(sim.api.writes)
    for qps in (61, 75, 58):
        sim.demand = steady(qps)
        await sim.converge()
    assert len(sim.api.writes) == before


async def test_a_load_that_is_not_known_leaves_ready_to_the_instances() -> None:
    sim = await serving()
    edit(sim, pause="ScaleUp")
    sim.demand = steady(60)
    await sim.converge()
    sim.demand = unknown(Freshness.STALE, "old")
    await sim.converge()
    assert said(sim, "Ready") == ("True", "AllInstancesReady")


async def test_a_change_of_plan_does_not_end_ready_while_what_is_ready_carries_the_load() -> None:
    sim = await serving()
    told: list[str] = []
    sim.api.after.append(lambda *_: told.append(said(sim, "Ready")[0]))
    sim.demand = steady(39)
    await sim.converge()
    assert set(told) == {"True"}, "four instances hold 40 queries/s, before, with and after the decision"
    assert sim.service()["status"]["plan"]["summary"] == "5xt4"


async def test_advice_says_nothing_of_the_load() -> None:
    sim = await serving(mode="Advise")
    sim.demand = steady(60)
    for _ in range(3):
        await sim.converge()
        assert said(sim, "Ready")[1] != "LoadNotCarried"


# ScalingLimited

LEAST = {"minInstances": 6}


async def test_a_limit_stays_as_it_was_while_the_load_is_not_known() -> None:
    sim = await serving(scaling=LEAST)
    before = sim.condition("ScalingLimited")
    assert limited(sim) == ("True", "MinInstancesReached")

    def gap(key: Key, moment: datetime) -> Demand:
        whole = steady(30)(key, moment)
        return replace(whole, samples=whole.samples[-20:])

    for demand in (unknown(Freshness.STALE, "old"), unknown(Freshness.MISSING, "none"), gap, steady(30)):
        sim.demand = demand
        await sim.converge()
        assert sim.condition("ScalingLimited") == before
    assert len(events(sim)) == 1, "the same limit is told again after each gap"


async def test_no_limit_is_not_said_before_the_load_is_known() -> None:
    sim = SimulatedOperator()
    sim.add(*scene(launch="20s", load={"expectedQPS": 30}))
    sim.demand = unknown(Freshness.MISSING, "no sample")
    await sim.converge()
    assert limited(sim) == ("Unknown", "WaitingForMetrics")
    sim.demand = steady(30)
    await sim.converge()
    assert limited(sim) == ("False", "NotLimited")


async def test_without_a_plan_there_is_no_limit_to_judge() -> None:
    sim = SimulatedOperator()
    sim.add(*scene(launch="20s"))
    sim.demand = unknown(Freshness.MISSING, "no sample")
    await sim.converge()
    assert limited(sim) == ("Unknown", "NotPlanned")


async def test_a_planner_that_fails_ends_no_limit() -> None:
    sim = await serving(PlansLater(), scaling=LEAST)
    before = sim.condition("ScalingLimited")
    sim.fails = True
    sim.demand = steady(58)
    await sim.converge()
    assert said(sim, "Planned") == ("True", "PlannerFailed")
    assert sim.condition("ScalingLimited") == before


async def test_a_pause_that_withholds_instances_limits_by_choice_and_says_which_way() -> None:
    sim = await serving()
    edit(sim, pause="All")
    for qps, way in ((60, "more"), (10, "fewer")):
        sim.demand = steady(qps)
        await sim.converge()
        assert limited(sim) == ("True", "Paused")
        assert f"asks for {way} instances" in sim.condition("ScalingLimited")["message"]
    assert [e["type"] for _, e in sim.api.items("events") if e["reason"] == "ScalingLimited"] == ["Normal"]
    sim.demand = steady(30)
    await sim.converge()
    assert limited(sim) == ("False", "NotLimited")


def beyond(**fields: Any) -> Callable[[SimulatedOperator], None]:
    """More load than fits, under an edited spec."""

    def change(sim: SimulatedOperator) -> None:
        edit(sim, **fields)
        sim.demand = steady(900)

    return change


def few_of_the_type(sim: SimulatedOperator) -> None:
    sim.edit(T4, lambda raw: raw["spec"].update(maxInstances=5))
    sim.demand = steady(900)


def no_place(sim: SimulatedOperator) -> None:
    """The scheduler places no more, though the cluster seems to have room."""
    sim.cluster.refused["t4"] = FULL
    sim.demand = steady(60)


def too_slow(sim: SimulatedOperator) -> None:
    edit(sim, slo={"latency": "50ms", "percentile": "99"})


def gates_lifted(sim: SimulatedOperator) -> None:
    for path, pod in sim.cluster.pods():
        if pod["spec"].pop("schedulingGates", None) is not None:
            sim.api.touch(path)


Scene = Callable[[SimulatedOperator], None]
LIMITS: dict[str, tuple[str, str, Scene, Json]] = {
    "nodes": ("CapacityLimits", "CapacityTooLow", beyond(), {}),
    "maxInstances of the type": ("CapacityLimits", "CapacityTooLow", few_of_the_type, {}),
    "money": ("BudgetLimits", "BudgetTooLow", beyond(budget={"hourly": "4"}), {}),
    "maxInstances of the service": ("MaxInstancesReached", "CapacityTooLow", beyond(), {"maxInstances": 7}),
    "a type without room": ("TypeScarce", "CapacityTooLow", no_place, {}),
    "an SLO that no type keeps": ("LoadBeyondReach", "NoTypeMeetsSLO", too_slow, {}),
    "steps": ("StepPolicyLimits", "PlanFeasible", beyond(), {"scaleUp": ONE_A_DAY}),
    "a pause": ("Paused", "PlanFeasible", beyond(pause="ScaleUp"), {}),
    "the minimum": ("MinInstancesReached", "PlanFeasible", lambda _sim: None, LEAST),
}


@pytest.mark.parametrize("what", LIMITS)
async def test_what_limits_is_said_by_its_own_reason(what: str) -> None:
    reason, feasible, change, scaling = LIMITS[what]
    sim = await serving(scaling=scaling)
    change(sim)
    await sim.converge()
    gates_lifted(sim)
    sim.clock += 60
    await sim.converge()
    assert limited(sim) == ("True", reason), sim.condition("ScalingLimited")
    assert sim.condition("Feasible")["reason"] == feasible or reason == "StepPolicyLimits"


@pytest.mark.parametrize("ahead", [timedelta(0), timedelta(hours=1)])
async def test_a_type_is_scarce_a_launch_time_after_more_was_asked_for_though_clocks_differ(ahead: timedelta) -> None:
    sim = SimulatedOperator()
    sim.cluster.clock = lambda: datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=sim.clock) - ahead
    await serving(sim)
    no_place(sim)
    await sim.look_all()
    sim.cluster.tick()
    gates_lifted(sim)
    sim.cluster.tick()
    asked = sim.clock
    for wait, scarce in ((1, False), (18, False), (40, True)):
        sim.clock = asked + wait
        await sim.look_all()
        assert (limited(sim)[1] == "TypeScarce") is scarce, (wait, limited(sim))


def test_every_documented_limit_is_made() -> None:
    documented = {d.reason for d in DOCS if d.condition is ConditionType.SCALING_LIMITED and d.status == "True"}
    assert documented == {reason for reason, *_ in LIMITS.values()}


async def test_the_most_that_fits_is_said_beside_the_load() -> None:
    sim = await serving(scaling={"maxInstances": 7})
    sim.demand = steady(900)
    await sim.look_all()
    message = sim.condition("ScalingLimited")["message"]
    assert "1130.0 q/s are to be held" in message, "900 queries/s at 80 %"
    assert "spec.scaling.maxInstances (7) allows" in message


async def test_a_new_spec_gets_new_words() -> None:
    sim = await serving(scaling={"maxInstances": 5})
    sim.demand = steady(60)
    await sim.converge()
    assert "maxInstances (5)" in sim.condition("ScalingLimited")["message"]
    edit(sim, scaling={"maxInstances": 6})
    await sim.converge()
    assert limited(sim) == ("True", "MaxInstancesReached")
    assert "maxInstances (6)" in sim.condition("ScalingLimited")["message"]


async def test_one_sample_above_what_is_held_is_seen_and_its_end_too() -> None:
    """Of a service at rest, whose windows ask for nothing."""
    sim = await serving()
    quiet = sim.observer.interests
    key = Key("default", "rm2")

    def peak(key: Key, moment: datetime) -> Demand:
        calm = steady(30)(key, moment)
        return replace(calm, samples=(*calm.samples[:-1], RateSample(calm.samples[-1].at, QPS(45.0))))

    now = datetime.fromtimestamp(sim.clock, UTC)
    assert quiet.is_quiet(key, steady(30)(key, now))
    assert not quiet.is_quiet(key, peak(key, now))
    sim.demand = peak
    await sim.converge()
    assert said(sim, "Ready") == ("False", "LoadNotCarried")
    assert not quiet.is_quiet(key, steady(30)(key, now)), "nobody would say that the load is carried again"
