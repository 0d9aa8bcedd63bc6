"""The checker must catch what a wrong planner could do: each promise is broken once."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from hetserve.api.conditions import Reason
from hetserve.base.units import QPS, MiB, MicroDollarsPerHour, MilliCPU
from hetserve.demand import BatchMix
from hetserve.planning import Plan, Pool, Problem, ResourceAmounts, plan
from hetserve.planning.check import violations
from hetserve.planning.kairos import planner
from testing.planning import line, min_cost, option, problem

MIX = BatchMix.of([(1, 1), (10, 1)])
GPU = ResourceAmounts(MilliCPU(500), MiB(10), MiB(20), 1)
TYPES = (
    option(
        "gpu",
        "1",
        line(0, 5),
        max_instances=2,
        demand=ResourceAmounts(MilliCPU(500), MiB(10), MiB(20), 1),
        pool="p",
    ),
    option("cpu", "0.2", line(0, 20), max_instances=9, demand=ResourceAmounts(MilliCPU(500), MiB(10)), pool="p"),
    option("stone", "0.1", line(900)),
)
POOLS = (Pool("p", ResourceAmounts(MilliCPU(2500), MiB(40), MiB(40), 1)),)
THROUGHPUT = problem(TYPES, mix=MIX, slo_ms=100, budget="2", pools=POOLS)
COST = min_cost(TYPES, 30, mix=MIX, slo_ms=100, budget="2", pools=POOLS)
EMPTY = Plan(Reason.PLAN_FEASIBLE, "", "test", (), MicroDollarsPerHour(0))


def held(gpu: int, cpu: int, stone: int = 0, **fields: Any) -> Plan:
    cost = gpu * 1_000_000 + cpu * 200_000 + stone * 100_000
    counts = (("gpu", gpu), ("cpu", cpu), ("stone", stone))
    given: dict[str, Any] = {"counts": counts, "cost": MicroDollarsPerHour(cost), **fields}
    return dataclasses.replace(EMPTY, **given)


def bound(gpu: int, cpu: int, stone: int = 0, **fields: Any) -> Plan:
    return held(gpu, cpu, stone, **{"bound_qps": QPS(40.0), **fields})


def capacity(gpu: int, cpu: int, qps: float) -> Plan:
    return held(gpu, cpu, capacity_qps=QPS(qps))


GOOD = {"a plan under a budget": (THROUGHPUT, bound(1, 2)), "a plan for a load": (COST, capacity(1, 0, 1 / 0.0275))}
BROKEN: dict[str, tuple[Problem, Plan, str]] = {
    "over the budget": (THROUGHPUT, bound(2, 1), "costs 2200000 micro-dollars/h, the budget is 2000000"),
    "over a cap": (THROUGHPUT, bound(3, 0), "3 instances of gpu: at most 2 are allowed"),
    "negative": (THROUGHPUT, bound(1, -1), "-1 instances of cpu: fewer than none"),
    "a cost that is not the sum": (THROUGHPUT, bound(1, 0, cost=MicroDollarsPerHour(1)), "its instances cost 1000000"),
    "more CPU than is free": (THROUGHPUT, bound(1, 5), "take 3000 millicores of CPU from pool p, 2500 are free"),
    "more memory than is free": (THROUGHPUT, bound(1, 4), "take 50 MiB of memory from pool p, 40 are free"),
    "more GPUs than have a place": (THROUGHPUT, bound(2, 0), "take 2 places of GPUs from pool p, 1 are free"),
    "no type that serves every batch": (THROUGHPUT, bound(0, 3), "no type of the plan serves every batch"),
    "a type that serves nothing": (THROUGHPUT, bound(1, 0, 1), "stone serves no batch within the SLO"),
    "nothing at all": (THROUGHPUT, bound(0, 0), "the plan holds no instance"),
    "no bound": (THROUGHPUT, bound(1, 0, bound_qps=QPS(float("nan"))), "the bound is nan q/s"),
    "other names": (THROUGHPUT, bound(1, 0, counts=(("gpu", 1),)), "counts name ['gpu']"),
    "a type that misses the SLO": (COST, capacity(1, 1, 45.0), "cpu does not keep the SLO at batch 10"),
    "too little for the load": (
        dataclasses.replace(COST, saturation_threshold=0.5),
        capacity(1, 0, 1 / 0.0275),
        "the plan carries 36.3636 q/s, 60 q/s are needed",
    ),
    "a capacity that is not the sum": (COST, capacity(1, 0, 50.0), "the plan says it carries 50 q/s"),
}


@pytest.mark.parametrize("case", GOOD)
def test_good_plans_pass(case: str) -> None:
    asked, made = GOOD[case]
    assert violations(asked, made) == ()


@pytest.mark.parametrize("case", BROKEN)
def test_each_broken_promise_is_found(case: str) -> None:
    asked, made, message = BROKEN[case]
    assert any(message in found for found in violations(asked, made)), violations(asked, made)


def test_running_instances_are_not_charged_to_the_pool() -> None:
    running = tuple(dataclasses.replace(o, running=4) if o.name == "cpu" else o for o in TYPES)
    assert violations(dataclasses.replace(THROUGHPUT, types=running), bound(1, 4)) == ()


def test_a_refused_plan_becomes_a_failure_of_the_planner(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planner, "plan_kairos", lambda *_: bound(2, 1))
    made = plan(THROUGHPUT, "kairos")
    assert not made.feasible
    assert made.reason == Reason.PLANNER_FAILED
    assert "the checker refused the plan: the plan costs 2200000" in made.message
    assert dict(made.counts) == {"gpu": 0, "cpu": 0, "stone": 0}


def test_a_planner_that_crashes_becomes_a_condition(monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(*_: object) -> Plan:
        raise ZeroDivisionError("no base")

    monkeypatch.setattr(planner, "plan_kairos", crash)
    made = plan(THROUGHPUT, "kairos")
    assert made.reason == Reason.PLANNER_FAILED
    assert made.message == "planner kairos failed: ZeroDivisionError: no base"
