"""The checker refuses a plan of flow for each promise that it breaks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hetserve.api.conditions import Reason
from hetserve.base.units import QPS, MicroDollarsPerHour, Seconds
from hetserve.demand import BatchMix
from hetserve.planning import Plan, Problem
from hetserve.planning.check import violations
from hetserve.planning.plan import ClassFlow
from hetserve.profiles import LinearProfile, Spread
from testing.planning import line, min_cost, option, problem

MIX = BatchMix.of([(1, 1), (4, 1), (10, 2)])
NOISY = LinearProfile(Seconds(0.0), Seconds(0.008), None, Spread.of_variation(0.3))
TYPES = (option("fast", "1", line(0, 5)), option("slow", "0.2", line(0, 20)), option("noisy", "0.1", NOISY))
MOST = problem(TYPES, mix=MIX, slo_ms=100, budget="2")
LOAD = min_cost(TYPES, 20, mix=MIX, slo_ms=100)

SERVED = (
    ClassFlow("slow", 1, 4, QPS(6.0)),
    ClassFlow("fast", 1, 4, QPS(4.0)),
    ClassFlow("fast", 10, 10, QPS(10.0)),
)
"""20 queries/s: 0.3 of a slow instance, 0.55 of a fast one."""


def plan(*flow: ClassFlow, held: float = 20.0, fast: int = 1, slow: int = 1, noisy: int = 0, **fields: Any) -> Plan:
    given = Plan(
        Reason.PLAN_FEASIBLE,
        "",
        "flow",
        (("fast", fast), ("slow", slow), ("noisy", noisy)),
        MicroDollarsPerHour(fast * 1_000_000 + slow * 200_000 + noisy * 100_000),
        bound_qps=QPS(40.0),
        tried=True,
        held_qps=QPS(held),
        flow=flow or SERVED,
    )
    return replace(given, **fields)


BROKEN: dict[str, tuple[Problem, Plan, str]] = {
    "a class that nobody serves": (MOST, plan(*SERVED[:2], held=10.0), "batch 10 is in 0 classes of the flow"),
    "a batch in two classes": (
        MOST,
        plan(*SERVED, ClassFlow("fast", 4, 4, QPS(1.0))),
        "batch 4 is in 2 classes of the flow",
    ),
    "a class that gets more than its share": (
        MOST,
        plan(*SERVED[:2], ClassFlow("fast", 10, 10, QPS(12.0))),
        "batches 1 to 4 get 10 q/s of 11 q/s",
    ),
    "more time than the instances have": (
        MOST,
        plan(*(replace(flow, qps=QPS(flow.qps * 2)) for flow in SERVED), held=40.0),
        "fast is planned for 1.1 instances, there are 1",
    ),
    "time of a type of which there is none": (MOST, plan(slow=0), "slow is planned for 0.3 instances, there are 0"),
    "a batch that is always late": (
        MOST,
        plan(*SERVED[:2], ClassFlow("slow", 10, 10, QPS(10.0)), slow=4),
        "50.000% of the queries are late by plan",
    ),
    "a spread that is late too often": (
        MOST,
        plan(*SERVED[:2], ClassFlow("noisy", 10, 10, QPS(10.0)), noisy=2),
        "% of the queries are late by plan, more than the SLO allows",
    ),
    "a rate below the promise": (MOST, plan(held=21.0), "the flow is 20 q/s, 21 q/s are promised"),
    "a rate below the load": (
        replace(LOAD, load=QPS(21.0)),
        plan(held=20.0, capacity_qps=QPS(40.0), bound_qps=None),
        "the flow is 20 q/s, 21 q/s are promised",
    ),
    "no flow at all": (MOST, replace(plan(), flow=()), "batch 1 is in 0 classes of the flow"),
    "an untried plan without its flow": (
        MOST,
        plan(*SERVED[:2], tried=False, held_qps=None),
        "batch 10 is in 0 classes of the flow",
    ),
    "over the budget": (MOST, plan(fast=2), "costs 2200000 micro-dollars/h, the budget is 2000000"),
}


@pytest.mark.parametrize("given", [MOST, LOAD], ids=["most throughput", "least cost"])
def test_a_flow_that_keeps_its_promises_passes(given: Problem) -> None:
    assert violations(given, plan()) == ()


@pytest.mark.parametrize(("given", "made", "said"), BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_promise_is_named(given: Problem, made: Plan, said: str) -> None:
    assert any(said in one for one in violations(given, made)), violations(given, made)


def test_a_spread_just_within_the_allowed_share_passes() -> None:
    """Of the noisy type's batch 10, 80 ms and SLO 100 ms: late by its own quantile."""
    spread = NOISY.spread(10)
    assert spread is not None
    edge = next(p for p, ratio in zip(spread.probabilities, spread.ratios, strict=True) if ratio >= 1.25)
    flow = (*SERVED[:2], ClassFlow("noisy", 10, 10, QPS(10.0)))
    lenient = replace(MOST, slo=replace(MOST.slo, percentile=60.0))
    assert 0.5 * (1 - edge) < 0.4
    assert violations(lenient, plan(*flow, noisy=2)) == ()
