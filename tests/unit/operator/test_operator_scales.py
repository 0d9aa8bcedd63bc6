"""Services that follow their measured load, on a simulated cluster."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from hetserve.demand.observed import Demand, Freshness, ShareSample
from hetserve.planning.plan import read_counts
from hetserve_operator.plans.queue import PlannerQueue
from hetserve_operator.workqueue import Key
from measured_demand import Measured, fresh, steady, unknown
from scaled_scene import PlansLater, scene
from testing.builders import instance_type, service
from testing.operator import SimulatedOperator, path_of

Json = dict[str, Any]
RATE = 10
"""Queries/s of an instance; at 80 % it is planned for 8."""
SERVICE = path_of(service("rm2"))


def instances(sim: SimulatedOperator) -> int:
    return sum(sim.replicas().values())


def status(sim: SimulatedOperator) -> Json:
    found: Json = sim.service()["status"]
    return found


def is_true(sim: SimulatedOperator, kind: str) -> bool:
    return bool(sim.condition(kind)["status"] == "True")


@pytest.fixture
def sim() -> SimulatedOperator:
    """At 30 queries/s: four instances."""
    made = SimulatedOperator()
    made.add(*scene())
    made.demand = steady(30)
    return made


async def test_a_service_is_planned_for_what_is_measured(sim: SimulatedOperator) -> None:
    await sim.converge()
    assert instances(sim) == 4
    assert status(sim)["plan"]["load"] == "30"
    assert status(sim)["demand"]["qps"] == "30"
    assert status(sim)["demand"]["freshness"] == "Fresh"
    assert is_true(sim, "Ready")
    assert is_true(sim, "MetricsAvailable")
    assert is_true(sim, "ScalingActive")
    assert not is_true(sim, "ScalingLimited")
    (first,) = status(sim)["lastDecisions"]
    assert (first["action"], read_counts(first["from"]), read_counts(first["to"]), first["load"]) == (
        "FirstPlan",
        (),
        (("t4", 4),),
        "30",
    )


async def test_a_first_plan_without_a_trial_is_not_provisional_since_none_follows_it() -> None:
    """The policy goes on from what the instances hold, not to a tried plan for the same load."""
    sim = PlansLater()
    sim.add(*scene(planner="flow"))
    sim.demand = steady(30)
    await sim.converge()
    assert (status(sim)["plan"]["tried"], status(sim)["plan"].get("provisional")) == (False, None)


async def test_more_load_brings_more_instances_and_less_load_fewer(sim: SimulatedOperator) -> None:
    await sim.converge()
    sim.demand = steady(60)
    await sim.converge()
    assert instances(sim) == 8
    sim.demand = steady(20)
    await sim.converge()
    assert instances(sim) == 3
    actions = [entry["action"] for entry in status(sim)["lastDecisions"]]
    assert actions == ["ScaleDown", "ScaleUp", "FirstPlan"]


async def test_a_service_that_grows_is_ready_while_what_serves_carries_the_load(sim: SimulatedOperator) -> None:
    await sim.converge()
    sim.demand = steady(39)
    await sim.look_all()
    assert is_true(sim, "Ready"), "four instances hold 40 queries/s"
    assert sim.condition("Ready")["reason"] == "LoadCarried"
    sim.demand = steady(41)
    await sim.look_all()
    assert not is_true(sim, "Ready")


@pytest.mark.parametrize(("qps", "mode", "short"), [(60, "Apply", True), (10, "Apply", False), (60, "Advise", False)])
async def test_what_a_service_asks_is_urgent_if_its_load_exceeds_what_it_holds(
    sim: SimulatedOperator, qps: float, mode: str, short: bool
) -> None:
    await sim.converge()
    sim.edit(SERVICE, lambda raw: raw["spec"].update(mode=mode))
    book = PlannerQueue(lambda: 0.0, lambda _: None)
    sim.restart(book)
    sim.demand = steady(qps)
    await sim.observer.relist()
    await sim.look(Key("default", "rm2"))
    ticket = book.take()
    assert ticket is not None
    assert ticket.question.short is short


async def test_ten_percent_of_noise_writes_nothing(sim: SimulatedOperator) -> None:
    await sim.converge()
    draw = random.Random(7)  # noqa: S311  no secret
    noise = [draw.uniform(-0.1, 0.1) for _ in range(1009)]
    sim.demand = fresh(lambda t: 30 * (1 + noise[int(t) % 1009]))
    await sim.converge()
    before = len(sim.api.writes)
    for _ in range(60):
        sim.clock += 30
        await sim.round()
    assert len(sim.api.writes) == before
    assert instances(sim) == 4


def late(qps: float, share: float = 0.1) -> Measured:
    """A steady load of which each sample has so many queries late."""
    rated = steady(qps)

    def demand(key: Key, moment: datetime) -> Demand:
        seen = rated(key, moment)
        return replace(seen, attained=tuple(ShareSample(sample.at, 1 - share, 1000.0) for sample in seen.samples))

    return demand


LATE = "queries that are late do not count until "


async def test_late_queries_that_do_not_count_yet_are_named_until_they_do(sim: SimulatedOperator) -> None:
    await sim.converge()
    sim.demand = late(30)
    await sim.look_all()
    said = sim.condition("ScalingActive")
    assert said["status"] == "True"
    assert LATE in said["message"]

    writes = len(sim.api.writes)
    for share in (0.0, 0.1, 0.0, 0.1):
        sim.clock += 5
        sim.demand = late(30, share)
        await sim.round()
    assert len(sim.api.writes) == writes, "it is said once, whatever the samples say"

    sim.clock += 1000
    await sim.converge()
    (missed, *_) = status(sim)["lastDecisions"]
    assert missed["reason"] == "SLOMissed"
    sim.demand = steady(30)
    sim.clock += 100
    await sim.converge()
    ends = datetime.fromisoformat(missed["time"]) + timedelta(seconds=300)
    stays = f"late queries brought instances: none goes before {ends:%Y-%m-%dT%H:%M:%SZ}"
    assert stays in sim.condition("ScalingActive")["message"]
    writes = len(sim.api.writes)
    sim.clock += 20
    await sim.look_all()
    assert len(sim.api.writes) == writes

    sim.clock += 1000
    await sim.look_all()
    assert sim.condition("ScalingActive")["message"] == "the number of instances follows the measured load"


async def test_late_queries_are_named_while_an_instance_finds_no_place(sim: SimulatedOperator) -> None:
    sim.cluster.never_ready = {"t4"}
    await sim.converge()
    sim.demand = late(30)
    await sim.look_all()
    assert f"{LATE}all that is planned has served for a while" in sim.condition("ScalingActive")["message"]


@pytest.mark.parametrize("spec", [{"mode": "Advise"}, {"pause": "All"}, {"pause": "ScaleUp"}])
async def test_where_none_is_added_nothing_is_said_of_late_queries(sim: SimulatedOperator, spec: Json) -> None:
    await sim.converge()
    sim.edit(SERVICE, lambda raw: raw["spec"].update(spec))
    sim.demand = late(30)
    await sim.look_all()
    assert LATE not in sim.condition("ScalingActive")["message"]


@pytest.mark.parametrize("freshness", [Freshness.STALE, Freshness.MISSING, Freshness.INVALID])
async def test_nothing_shrinks_without_fresh_metrics(sim: SimulatedOperator, freshness: Freshness) -> None:
    await sim.converge()
    sim.demand = unknown(freshness, "the newest sample is old")
    before = status(sim)["demand"]
    await sim.converge()
    assert status(sim)["demand"] == {**before, "freshness": str(freshness)}, "it is as last measured"
    assert instances(sim) == 4
    assert not is_true(sim, "MetricsAvailable")
    assert sim.condition("ScalingActive")["reason"] == "WaitingForMetrics"
    assert is_true(sim, "Ready")


def cares_for_room(sim: SimulatedOperator) -> bool:
    """Whether the operator looks at the service when room on a node is taken or becomes free."""
    return Key("default", "rm2") in sim.observer.interests.in_room_of(["t4"])


def gap(key: Key, moment: datetime) -> Demand:
    """A load whose window of scaling down is not covered: Prometheus was away."""
    whole = steady(30)(key, moment)
    return replace(whole, samples=whole.samples[-20:])


@pytest.mark.parametrize("demand", [unknown(Freshness.MISSING, "no sample"), gap])
async def test_without_samples_a_service_that_fits_cares_for_no_room(sim: SimulatedOperator, demand: Measured) -> None:
    await sim.converge()
    sim.demand = demand
    await sim.converge()
    assert instances(sim) == 4
    assert not cares_for_room(sim)


async def test_without_samples_a_service_that_is_short_still_waits_for_room(sim: SimulatedOperator) -> None:
    await sim.converge()
    sim.demand = steady(900)
    await sim.converge()
    assert cares_for_room(sim)
    sim.demand = unknown(Freshness.MISSING, "no sample")
    await sim.converge()
    assert not is_true(sim, "Feasible")
    assert cares_for_room(sim)


async def test_a_true_zero_shrinks_to_the_least(sim: SimulatedOperator) -> None:
    await sim.converge()
    sim.demand = steady(0)
    await sim.converge()
    assert instances(sim) == 1


async def test_a_minimum_that_keeps_more_than_the_load_needs_is_said() -> None:
    sim = SimulatedOperator()
    sim.add(*scene({"minInstances": 6}))
    sim.demand = steady(30)
    await sim.converge()
    limited = sim.condition("ScalingLimited")
    assert (limited["status"], limited["reason"]) == ("True", "MinInstancesReached")
    assert "spec.scaling.minInstances is 6" in limited["message"]
    assert [e["type"] for _, e in sim.api.items("events") if e["reason"] == "ScalingLimited"] == ["Normal"]
    before = len(sim.api.writes)
    sim.demand = steady(25)
    await sim.converge()
    assert len(sim.api.writes) == before, "digits of a load below the minimum are written"
    sim.demand = steady(45)
    await sim.converge()
    assert sim.condition("ScalingLimited")["reason"] == "NotLimited"


async def test_a_load_beyond_the_cluster_gets_the_most_that_fits(sim: SimulatedOperator) -> None:
    await sim.converge()
    sim.demand = steady(900)
    await sim.converge()
    assert instances(sim) == 12
    feasible = sim.condition("Feasible")
    assert (feasible["status"], feasible["reason"]) == ("False", "CapacityTooLow")
    assert "120.0 queries/s" in feasible["message"] or "120.0 q/s" in feasible["message"]
    assert sim.condition("ScalingLimited")["reason"] == "CapacityLimits"
    sim.demand = steady(30)
    await sim.converge()
    assert instances(sim) == 4
    assert is_true(sim, "Feasible")


async def test_a_restart_neither_forgets_nor_repeats(sim: SimulatedOperator) -> None:
    await sim.converge()
    sim.demand = steady(60)
    await sim.converge()
    writes = len(sim.api.writes)
    sim.restart()
    await sim.converge()
    assert len(sim.api.writes) == writes
    assert instances(sim) == 8


async def test_a_lower_budget_is_obeyed_whatever_is_measured(sim: SimulatedOperator) -> None:
    await sim.converge()
    sim.demand = unknown(Freshness.STALE, "old")
    sim.edit(SERVICE, lambda raw: raw["spec"].update(budget={"hourly": "1.1"}, pause="All"))
    await sim.converge()
    assert instances(sim) == 2, "0.526 $/h each"
    assert status(sim)["lastDecisions"][0]["action"] in {"Shrink", "ScaleDown"}


async def test_a_paused_service_stays_and_goes_on_afterwards(sim: SimulatedOperator) -> None:
    await sim.converge()
    sim.edit(SERVICE, lambda raw: raw["spec"].update(pause="All"))
    sim.demand = steady(60)
    await sim.converge()
    assert instances(sim) == 4
    assert sim.condition("ScalingActive")["reason"] == "Paused"
    sim.edit(SERVICE, lambda raw: raw["spec"].update(pause="ScaleUp"))
    await sim.converge()
    assert instances(sim) == 4
    sim.edit(SERVICE, lambda raw: raw["spec"].update(pause="ScaleDown"))
    await sim.converge()
    assert instances(sim) == 8


async def test_advice_changes_no_deployment(sim: SimulatedOperator) -> None:
    await sim.converge()
    sim.edit(SERVICE, lambda raw: raw["spec"].update(mode="Advise"))
    before = sim.replicas()
    sim.demand = steady(60)
    await sim.converge()
    assert sim.replicas() == before
    assert status(sim)["advice"]["summary"] == "8xt4"
    assert status(sim)["plan"]["summary"] == "4xt4"
    sim.edit(SERVICE, lambda raw: raw["spec"].update(budget={"hourly": "1"}))
    await sim.converge()
    assert sim.replicas() == before, "not even a budget is obeyed"
    assert sim.condition("ScalingActive")["reason"] == "Advising"
    sim.edit(SERVICE, lambda raw: raw["spec"].pop("budget"))
    sim.edit(SERVICE, lambda raw: raw["spec"].update(mode="Apply"))
    await sim.converge()
    assert instances(sim) == 8
    assert "advice" not in status(sim) or status(sim)["advice"] is None


async def test_advice_for_a_new_service_creates_nothing() -> None:
    sim = SimulatedOperator()
    sim.add(*scene(mode="Advise"))
    sim.demand = steady(30)
    await sim.converge()
    assert not sim.replicas()
    assert status(sim)["advice"]["summary"] == "4xt4"
    assert [(sim.condition(kind)["status"], sim.condition(kind)["reason"]) for kind in ("Ready", "Stalled")] == [
        ("False", "Advising"),
        ("True", "Advising"),
    ]


@pytest.mark.parametrize(("mode", "posts"), [("Apply", True), ("Advise", False)])
async def test_a_budget_that_buys_nothing_posts_an_event_but_of_who_advises(mode: str, posts: bool) -> None:
    sim = SimulatedOperator()
    sim.add(*scene(mode=mode, budget={"hourly": "0.05"}))
    sim.demand = steady(30)
    await sim.converge()
    assert sim.condition("Feasible")["reason"] == "BudgetTooLow"
    assert any(sim.api.items("events")) is posts


@pytest.mark.parametrize("runs", [True, False])
async def test_ten_percent_of_noise_writes_no_other_advice(runs: bool) -> None:
    sim = SimulatedOperator()
    sim.add(*scene(mode="Apply" if runs else "Advise"))
    sim.demand = steady(30)
    await sim.converge()
    sim.edit(SERVICE, lambda raw: raw["spec"].update(mode="Advise"))
    draw = random.Random(7)  # noqa: S311  no secret
    noise = [draw.uniform(-0.1, 0.1) for _ in range(1009)]
    # What is the largest of the window moves by a few digits; the instances for it are the same.
    sim.demand = fresh(lambda t: 57 * (1 + noise[int(t) % 1009]))
    await sim.converge()
    advice, before = status(sim)["advice"], len(sim.api.writes)
    for _ in range(60):
        sim.clock += 30
        await sim.round()
    assert (status(sim)["advice"], len(sim.api.writes)) == (advice, before)
    sim.demand = steady(80)
    await sim.converge()
    assert status(sim)["advice"]["summary"] != advice["summary"]


@pytest.mark.parametrize("runs", [True, False])
async def test_advice_swings_with_the_load_no_more_than_a_plan_does(runs: bool) -> None:
    sim = SimulatedOperator()
    sim.add(*scene(mode="Apply" if runs else "Advise"))
    sim.demand = steady(30)
    await sim.converge()
    sim.edit(SERVICE, lambda raw: raw["spec"].update(mode="Advise"))
    sim.demand = steady(57)
    await sim.converge()
    advice, before = status(sim)["advice"], len(sim.api.writes)
    assert (advice["summary"], advice["reason"]) == ("8xt4", "LoadAboveCapacity")
    for qps in (53, 60, 55, 68):
        sim.demand = steady(qps)
        await sim.converge()
    assert (status(sim)["advice"], len(sim.api.writes)) == (advice, before)
    sim.edit(path_of(instance_type("t4")), lambda raw: raw["spec"]["price"].update(hourly="0.1"))
    await sim.converge()
    assert status(sim)["advice"] == {**advice, "hourlyCost": "0.800"}
    sim.demand = steady(40)
    await sim.converge()
    assert (status(sim)["advice"]["summary"], status(sim)["advice"]["reason"]) == ("6xt4", "LoadFitsOnLess")
    sim.demand = unknown(Freshness.MISSING, "no series")
    await sim.converge()
    assert status(sim)["advice"]["summary"] == "6xt4"
    assert "lastDecisions" not in status(sim) or len(status(sim)["lastDecisions"]) == 1


async def test_advice_ends_where_what_runs_would_do_again(sim: SimulatedOperator) -> None:
    await sim.converge()
    sim.edit(SERVICE, lambda raw: raw["spec"].update(mode="Advise"))
    sim.demand = steady(57)
    await sim.converge()
    assert status(sim)["advice"]["summary"] == "8xt4"
    sim.demand = steady(30)
    await sim.converge()
    assert status(sim).get("advice") is None
    assert status(sim)["plan"]["summary"] == "4xt4"


@pytest.mark.parametrize(
    "forged",
    [
        {"counts": "many", "load": "57"},
        {"counts": [{"instanceType": "gone", "count": 3}], "load": "57"},
        {"counts": [{"instanceType": "t4", "count": 8}], "load": "nan"},
        {"counts": [{"instanceType": "t4", "count": 2**31}]},
        {"counts": [{"instanceType": "t4", "count": 8}], "load": "-3"},
        {"counts": [8]},
        {},
    ],
)
async def test_advice_that_cannot_be_read_is_given_anew(sim: SimulatedOperator, forged: Json) -> None:
    await sim.converge()
    sim.edit(SERVICE, lambda raw: raw["spec"].update(mode="Advise"))
    sim.demand = steady(57)
    await sim.converge()
    words = {"summary": "8xt4", "hourlyCost": "1", "reason": "Forged", "message": "forged", **forged}
    sim.edit(SERVICE, lambda raw: raw["status"].update(advice=words))
    await sim.converge()
    assert status(sim)["advice"]["summary"] == "8xt4"
    assert status(sim)["advice"]["reason"] == "LoadAboveCapacity"


async def test_without_metrics_and_without_an_expected_load_nothing_is_planned() -> None:
    sim = SimulatedOperator()
    sim.add(*scene())
    sim.demand = unknown(Freshness.MISSING, "no series")
    await sim.converge()
    assert not sim.replicas()
    assert sim.condition("Planned")["reason"] == "LoadUnknown"
    sim.edit(SERVICE, lambda raw: raw["spec"].update(load={"expectedQPS": 15}))
    await sim.converge()
    assert instances(sim) == 2


async def test_scaling_that_is_added_takes_over_what_runs() -> None:
    sim = SimulatedOperator()
    (*others, declared) = scene()
    scaling = {key: declared["spec"].pop(key) for key in ("scaling", "metrics")}
    declared["spec"]["load"] = {"expectedQPS": 30}
    sim.add(*others, declared)
    await sim.converge()
    assert instances(sim) == 4
    sim.demand = steady(30)
    pods = {pod["metadata"]["uid"] for _, pod in sim.cluster.pods()}
    sim.edit(SERVICE, lambda raw: raw["spec"].update(scaling))
    await sim.converge()
    assert {pod["metadata"]["uid"] for _, pod in sim.cluster.pods()} == pods


async def test_loads_that_change_nothing_ask_for_no_look(sim: SimulatedOperator) -> None:
    await sim.converge()
    key, interests, now = Key("default", "rm2"), sim.observer.interests, datetime.now(UTC)
    assert interests.is_quiet(key, steady(30)(key, now))
    assert interests.is_quiet(key, steady(33)(key, now))
    assert not interests.is_quiet(key, steady(36)(key, now)), "88 % of the 40 queries/s that four instances hold"
    assert not interests.is_quiet(key, steady(20)(key, now)), "three instances would do"
    assert not interests.is_quiet(key, unknown(Freshness.STALE, "old")(key, now))
