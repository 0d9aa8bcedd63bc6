"""A service that follows its load is planned for the batch sizes as measured: more of large ones, more instances."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from hetserve.base.units import QPS
from hetserve.demand import BatchMix
from hetserve.demand.observed import Demand, Freshness, RateSample
from hetserve.scaling.plans.answers import Answers
from hetserve.scaling.record.replay import replay
from hetserve.scaling.record.ring import record_of_entry, ring_of
from hetserve_operator.plans.queue import PlannerQueue
from hetserve_operator.workqueue import Key
from testing.builders import REMOVED, instance_type, model_profile, service
from testing.operator import SimulatedOperator, path_of
from testing.scenes import node

Json = dict[str, Any]
EACH = {"intercept": "49.5ms", "slope": "0.5ms"}
"""A query of one item takes 50 ms, one of 101 items 100 ms: an instance holds 20 or 10 queries/s."""
SMALL, LARGE, HUGE = ((1, 1.0),), ((101, 1.0),), ((1, 0.5), (2001, 0.5))
SERVICE = path_of(service("rm2"))
RING = "/api/v1/namespaces/default/configmaps/rm2-decisions"
RATES_ONLY = {"source": "Queries", "queries": {"rate": "sum(rate(requests_total[1m]))"}}
WINDOW = 300.0
"""Of scaling down [s]."""


class Measured:
    """A steady load and its mix. queries: behind the mix."""

    def __init__(self, *weights: tuple[int, float], qps: float = 30.0, queries: float = 18_000.0) -> None:
        self.mix: BatchMix | None = BatchMix.of(weights) if weights else None
        self.qps, self.queries, self.freshness = qps, queries, Freshness.FRESH

    def __call__(self, _: Key, moment: datetime) -> Demand:
        now = moment.timestamp()
        samples = tuple(RateSample(now - 5 * i, QPS(self.qps)) for i in reversed(range(120)))
        return Demand(self.freshness, "", now, samples, mix=self.mix, mix_queries=self.queries)


def scene(planner: str = "ilp", **overrides: Any) -> list[Json]:
    """Two instances at 30 queries/s of one item each, four at 101 items."""
    return [
        *(node(f"t4-{i}", "t4", gpus=1) for i in range(12)),
        instance_type("t4"),
        model_profile("rm2-t4", {"spec.instanceType": "t4", "spec.latency": {"linear": EACH}}),
        service(
            "rm2",
            {
                "spec.objective": "MinCost",
                "spec.planner": planner,
                "spec.budget": REMOVED,
                "spec.load": REMOVED,
                "spec.metrics": {"source": "Hetserve"},
                "spec.scaling": {"scaleUp": {"lookAhead": "None"}},
                **{key.replace("__", "."): value for key, value in overrides.items()},
            },
        ),
    ]


async def running(*weights: tuple[int, float], **overrides: Any) -> tuple[SimulatedOperator, Measured]:
    sim, demand = SimulatedOperator(), Measured(*weights)
    sim.demand = demand
    sim.add(*scene(**overrides))
    await sim.converge()
    return sim, demand


def instances(sim: SimulatedOperator) -> int:
    return sum(sim.replicas().values())


def plan(sim: SimulatedOperator) -> Json:
    found: Json = sim.service()["status"]["plan"]
    return found


async def later(sim: SimulatedOperator, seconds: float) -> None:
    sim.clock += seconds
    await sim.converge()


async def test_larger_queries_bring_more_instances_at_the_same_load() -> None:
    sim, demand = await running(*SMALL)
    assert (instances(sim), "mix" in plan(sim)) == (2, False)
    demand.mix = BatchMix.of(LARGE)
    await sim.converge()
    assert (instances(sim), plan(sim)["mix"]) == (4, [{"batch": 101, "share": "1"}])
    newest = sim.service()["status"]["lastDecisions"][0]
    assert (newest["action"], newest["reason"]) == ("ScaleUp", "LoadAboveCapacity")
    assert "under the mix of batch sizes as measured" in newest["message"]


async def test_smaller_queries_remove_instances_after_the_window_only() -> None:
    sim, demand = await running(*LARGE)
    assert instances(sim) == 4
    await later(sim, 2 * WINDOW)
    demand.mix = BatchMix.of(SMALL)
    await sim.converge()
    begun = sim.clock
    while sim.clock < begun + WINDOW - 30:
        await later(sim, 15.0)
        assert instances(sim) == 4, sim.clock - begun
    await later(sim, 60.0)
    assert instances(sim) == 2
    assert sim.service()["status"]["lastDecisions"][0]["reason"] == "LoadFitsOnLess"


async def test_a_first_plan_is_made_for_the_mix_as_measured() -> None:
    sim, _ = await running(*LARGE)
    assert (instances(sim), plan(sim)["mix"]) == (4, [{"batch": 101, "share": "1"}])


async def test_few_queries_move_no_plan() -> None:
    sim, demand = await running(*SMALL)
    demand.mix, demand.queries = BatchMix.of([(1, 0.75), (101, 0.25)]), 150.0
    sim.api.writes.clear()
    await sim.converge()
    assert sim.api.writes == []
    demand.queries = 1500.0
    await sim.converge()
    assert plan(sim)["mix"] == [{"batch": 1, "share": "0.75"}, {"batch": 101, "share": "0.25"}]


async def test_a_mix_that_the_plan_carries_is_recorded_and_is_no_change() -> None:
    sim, demand = await running(*SMALL)
    before = sim.service()["status"]
    demand.mix = BatchMix.of([(1, 0.9), (101, 0.1)])
    await sim.converge()
    after = sim.service()["status"]
    assert (after["plan"]["summary"], after["lastDecisions"]) == ("2xt4", before["lastDecisions"])
    assert after["plan"]["mix"] == [{"batch": 1, "share": "0.9"}, {"batch": 101, "share": "0.1"}]
    assert after["plan"]["mixSince"] < "2026-01-01T00:17:30Z"
    sim.restart()
    demand.mix = None
    await later(sim, 2 * WINDOW)
    assert plan(sim) == after["plan"]


@pytest.mark.parametrize("freshness", [Freshness.STALE, Freshness.MISSING, Freshness.INVALID, None])
async def test_while_no_mix_is_measured_the_last_one_counts(freshness: Freshness | None) -> None:
    sim, demand = await running(*SMALL)
    demand.mix = BatchMix.of(LARGE)
    await sim.converge()
    before = plan(sim)
    demand.mix, demand.freshness = None, freshness or Freshness.FRESH
    await later(sim, 2 * WINDOW)
    sim.restart()
    await later(sim, 2 * WINDOW)
    assert (plan(sim), instances(sim)) == (before, 4)


async def test_a_mix_that_is_not_fresh_changes_nothing() -> None:
    sim, demand = await running(*SMALL)
    before = plan(sim)
    demand.mix, demand.freshness = BatchMix.of(LARGE), Freshness.STALE
    await later(sim, 2 * WINDOW)
    assert (plan(sim), instances(sim)) == (before, 2)


async def test_digits_of_the_mix_write_nothing_and_ask_for_no_look() -> None:
    sim, demand = await running((1, 0.5), (101, 0.5))
    await later(sim, 2 * WINDOW)
    sim.api.writes.clear()
    for share in (0.52, 0.48, 0.53, 0.47):
        demand.mix = BatchMix.of([(1, share), (101, 1 - share)])
        assert sim.observer.interests.is_quiet(Key("default", "rm2"), demand(Key("default", "rm2"), sim._now())), share
        await later(sim, 60.0)
    assert sim.api.writes == []
    demand.mix = BatchMix.of(LARGE)
    assert not sim.observer.interests.is_quiet(Key("default", "rm2"), demand(Key("default", "rm2"), sim._now()))


async def test_a_restart_asks_planners_nothing_about_a_mix_that_stays() -> None:
    sim, demand = await running((1, 0.611), (101, 0.389), planner="flow")
    demand.mix = BatchMix.of([(1, 0.2004), (101, 0.7996)])
    await later(sim, 2 * WINDOW)
    await later(sim, 2 * WINDOW)
    book = PlannerQueue(lambda: sim.clock, lambda _key: None)
    sim.restart(book)
    demand.mix = BatchMix.of([(1, 0.2111), (101, 0.7889)])
    sim.api.writes.clear()
    await sim.converge()
    assert (len(book), book.take(), sim.api.writes) == (0, None, [])


async def test_a_change_for_another_mix_replays_alike() -> None:
    sim, demand = await running(*SMALL)
    demand.mix = BatchMix.of([(1, 0.123457), (101, 0.876543)])
    await sim.converge()
    records = [record_of_entry(entry) for entry in ring_of(sim.api.objects[RING])]
    assert [str(record.decision.action) for record in records] == ["FirstPlan", "ScaleUp"]
    for record in records:
        assert replay(record, Answers(), Answers(quick=True)).identical
    newest = records[-1]
    assert newest.facts is not None
    assert newest.facts.problem.mix == BatchMix.of([(1, 0.123457), (101, 0.876543)])
    declared = replace(newest.facts, problem=replace(newest.facts.problem, mix=BatchMix.single()))
    assert not replay(replace(newest, facts=declared), Answers(), Answers(quick=True)).identical


async def test_a_mix_that_no_type_can_serve_does_not_count() -> None:
    sim, demand = await running(*SMALL)
    demand.mix = BatchMix.of(HUGE)
    await sim.converge()
    assert (instances(sim), "mix" in plan(sim)) == (2, False)
    assert "no instance type serves it" in sim.condition("ScalingActive")["message"]
    demand.qps = 60.0
    await sim.converge()
    assert instances(sim) == 4, "the load is followed by the mix of before"
    demand.mix = BatchMix.of(SMALL)
    await sim.converge()
    assert "serves" not in sim.condition("ScalingActive")["message"]


async def test_the_declared_mix_counts_where_batch_sizes_are_not_measured() -> None:
    sim, demand = await running(*LARGE)
    sim.edit(SERVICE, lambda raw: raw["spec"].update(metrics=RATES_ONLY))
    demand.mix = None
    await later(sim, 2 * WINDOW)
    await later(sim, 2 * WINDOW)
    assert "mix" not in plan(sim)
    assert instances(sim) < 4


async def test_advice_counts_the_mix_and_nothing_but_the_status_is_written() -> None:
    sim, demand = await running(*SMALL)
    sim.edit(SERVICE, lambda raw: raw["spec"].update(mode="Advise"))
    await sim.converge()
    before = plan(sim)
    demand.mix = BatchMix.of(LARGE)
    await sim.converge()
    assert sim.service()["status"]["advice"]["summary"] == "4xt4"
    assert (plan(sim), instances(sim)) == (before, 2)
    sim.api.writes.clear()
    for share in (0.97, 0.96, 0.98):
        demand.mix = BatchMix.of([(1, 1 - share), (101, share)])
        await later(sim, 60.0)
    assert sim.api.writes == [], "digits make no other advice"


async def test_a_clock_that_was_far_ahead_does_not_hold_instances_for_ever() -> None:
    sim, demand = await running(*LARGE)
    await later(sim, 2 * WINDOW)
    sim.edit(SERVICE, lambda raw: raw["status"]["plan"].update(mixSince="2099-01-01T00:00:00Z"))
    demand.qps = 5.0
    await later(sim, 2 * WINDOW)
    assert instances(sim) == 1


@pytest.mark.parametrize("freshness", [Freshness.FRESH, Freshness.STALE])
async def test_a_recorded_mix_that_no_type_serves_is_left_for_the_declared_one(freshness: Freshness) -> None:
    """A hand wrote it, or a profile has changed: nothing could be planned for it, whatever is measured."""
    sim, demand = await running(*SMALL)
    demand.freshness = freshness
    sim.edit(SERVICE, lambda raw: raw["status"]["plan"].update(mix=[{"batch": 100_000, "share": "1"}]))
    sim.restart()
    await sim.converge()
    assert "mix" not in plan(sim) or plan(sim)["mix"] != [{"batch": 100_000, "share": "1"}]
    assert sim.condition("Ready")["status"] == "True"
    assert sim.condition("Feasible")["status"] == "True"
