"""A MaxThroughput service whose queries are measured gets a plan for the mix as measured, once that holds more."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import pytest

from hetserve.base.units import QPS
from hetserve.demand import BatchMix
from hetserve.demand.observed import Demand, Freshness, RateSample
from hetserve.planning.plan import read_counts, summary
from hetserve.scaling import ScalingReason
from hetserve.scaling.plans.answers import Answers
from hetserve.scaling.record.replay import replay
from hetserve.scaling.record.ring import record_of_entry, ring_of
from hetserve_operator.workqueue import Key
from operator_scene import SERVICE
from planning_scene import PlanningScene, story
from testing.operator import SimulatedOperator
from testing.scenes import rm2_scene

Json = dict[str, Any]
METRICS = {"spec.metrics": {"source": "Hetserve"}, "spec.budget.hourly": "1.2"}
DECLARED = ((20, 0.98), (500, 0.02))
LARGE = ((20, 0.2), (500, 0.8))
RING = "/api/v1/namespaces/default/configmaps/rm2-decisions"


class Mix:
    """A mix as measured."""

    def __init__(self, weights: Sequence[tuple[int, float]], freshness: Freshness = Freshness.FRESH) -> None:
        self.weights, self.freshness = weights, freshness

    def __call__(self, _: Key, now: datetime) -> Demand:
        at = now.timestamp()
        return Demand(self.freshness, now=at, samples=(RateSample(at, QPS(40.0)),), mix=BatchMix.of(self.weights))


async def running(mix: Mix, planner: str = "flow") -> SimulatedOperator:
    """The service rm2 with the plan for what it declares, which is measured too."""
    sim = SimulatedOperator()
    sim.demand = Mix(DECLARED)
    sim.add(*rm2_scene(overrides={"spec.planner": planner, **METRICS}))
    await sim.converge()
    sim.demand = mix
    return sim


def plan(sim: SimulatedOperator) -> Json:
    found: Json = sim.service()["status"]["plan"]
    return found


async def test_a_mix_that_has_moved_gets_another_plan_which_a_restart_keeps() -> None:
    sim = await running(Mix(LARGE))
    before = plan(sim)
    assert "mix" not in before
    await sim.converge()
    after = plan(sim)
    assert after["summary"] != before["summary"]
    assert [one["batch"] for one in after["mix"]] == [20, 500]
    assert "the mix has moved by" in sim.condition("Feasible")["message"]
    assert after["inputs"] == before["inputs"]

    sim.restart()
    sim.api.writes.clear()
    await sim.converge()
    assert sim.api.writes == []
    sim.demand = Mix(LARGE, Freshness.STALE)
    await sim.converge()
    assert plan(sim) == after, "what was measured is not forgotten"


async def test_a_plan_for_another_mix_explains_itself_and_replays() -> None:
    sim = await running(Mix(LARGE))
    before = plan(sim)["summary"]
    await sim.converge()
    await sim.converge()
    after = plan(sim)["summary"]

    (said,) = sim.service()["status"]["lastDecisions"]
    assert (said["action"], said["reason"]) == ("Replace", "BetterMix")
    assert [summary(read_counts(said[key])) for key in ("from", "to")] == [before, after]
    assert "the mix has moved by" in said["message"]
    (event,) = [one for _, one in sim.api.items("events") if one["reason"] == "Replaced"]
    assert event["note"].startswith(f"BetterMix: {before} -> {after}")
    (record,) = [record_of_entry(entry) for entry in ring_of(sim.api.objects[RING])]
    assert (record.decision.reason, summary(record.before or ())) == (ScalingReason.BETTER_MIX, before)
    assert replay(record, Answers(), Answers(quick=True)).identical


async def test_a_change_that_a_pause_holds_back_is_not_told() -> None:
    sim = await running(Mix(LARGE))
    sim.edit(SERVICE, lambda raw: raw["spec"].update(pause="All"))
    await sim.converge()

    assert "lastDecisions" not in sim.service()["status"]
    assert RING not in sim.api.objects


async def test_digits_of_the_mix_change_nothing() -> None:
    sim = await running(Mix(LARGE))
    await sim.converge()
    sim.api.writes.clear()
    for share in (0.78, 0.83, 0.8, 0.76):
        sim.demand = Mix(((20, 1 - share), (500, share)))
        await sim.converge()
    assert sim.api.writes == []


async def test_advice_for_another_mix_stands_until_the_mix_is_back() -> None:
    sim = await running(Mix(LARGE))
    sim.edit(SERVICE, lambda raw: raw["spec"].update(mode="Advise"))
    await sim.converge()
    advice, before = sim.service()["status"]["advice"], plan(sim)
    assert (advice["reason"], advice["summary"] != before["summary"]) == ("BetterMix", True)
    sim.api.writes.clear()
    for share in (0.6, 0.83, 0.7, 0.9):
        sim.demand = Mix(((20, 1 - share), (500, share)))
        await sim.converge()
    sim.demand = Mix(LARGE, Freshness.STALE)
    await sim.converge()
    sim.demand = lambda _key, now: Demand(Freshness.MISSING, "no series", now.timestamp())
    await sim.converge()
    assert (sim.service()["status"]["advice"], plan(sim)) == (advice, before)
    assert [path for _, path in sim.api.writes if path.endswith("/deployments")] == []
    assert RING not in sim.api.objects
    sim.demand = Mix(DECLARED)
    await sim.converge()
    assert sim.service()["status"].get("advice") is None


@pytest.mark.parametrize("freshness", [Freshness.STALE, Freshness.MISSING, Freshness.INVALID])
async def test_a_mix_that_is_not_fresh_changes_nothing(freshness: Freshness) -> None:
    sim = await running(Mix(LARGE, freshness))
    before = plan(sim)
    await sim.converge()
    assert plan(sim) == before


async def test_a_pause_holds_the_change_back() -> None:
    sim = await running(Mix(LARGE))
    before = plan(sim)
    sim.edit(SERVICE, lambda raw: raw["spec"].update(pause="All"))
    await sim.converge()
    assert plan(sim) == before
    assert "spec.pause is All" in sim.condition("Planned")["message"]


def test_it_is_planned_beside_the_loop_while_the_plan_in_force_is_followed() -> None:
    async def told(scene: PlanningScene) -> None:
        scene.sim.demand = Mix(DECLARED)
        scene.sim.add(*rm2_scene(overrides={"spec.planner": "flow", **METRICS}))
        await scene.converge()
        before, scene.sim.demand = plan(scene.sim), Mix(LARGE)
        await scene.look()
        assert plan(scene.sim) == before
        for _ in range(3):
            await scene.planned()
        await scene.converge()
        assert plan(scene.sim)["summary"] != before["summary"]
        assert {work.kind for work in scene.begun} >= {"Decision", "Capacity"}
        after = plan(scene.sim)
        await scene.restart()
        await scene.converge()
        assert plan(scene.sim) == after

    story(told)


async def test_a_planner_that_tries_nothing_is_not_asked_and_named_until_another_is_set() -> None:
    sim = await running(Mix(LARGE), planner="kairos")
    before = plan(sim)
    await sim.converge()
    assert plan(sim) == before
    said = sim.condition("MetricsAvailable")
    assert (said["status"], said["reason"]) == ("True", "MetricsFresh")
    assert said["message"].startswith("the load is measured and decides nothing: spec.planner kairos tries no plan")

    sim.edit(SERVICE, lambda raw: raw["spec"].update(planner="flow"))
    await sim.converge()
    assert sim.condition("MetricsAvailable")["message"] == "the load is measured"


async def test_metrics_that_decide_by_now_are_said_by_a_newer_operator_too() -> None:
    """What the operator of before said of the same spec."""
    sim = await running(Mix(LARGE), planner="flow")

    def of_before(raw: Json) -> None:
        (found,) = [one for one in raw["status"]["conditions"] if one["type"] == "MetricsAvailable"]
        found["message"] = "the load is measured and decides nothing: spec.planner flow tries no plan"

    sim.edit(SERVICE, of_before)
    await sim.converge()
    assert sim.condition("MetricsAvailable")["message"] == "the load is measured"


async def test_the_declared_mix_counts_again_where_nothing_is_measured_any_more() -> None:
    sim = await running(Mix(LARGE))
    before = plan(sim)
    await sim.converge()
    sim.edit(SERVICE, lambda raw: raw["spec"].pop("metrics"))
    sim.demand = lambda _key, _now: None
    await sim.converge()
    assert (plan(sim)["summary"], "mix" in plan(sim)) == (before["summary"], False)
