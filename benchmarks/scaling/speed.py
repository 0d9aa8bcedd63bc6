"""Time of a decision: without a new plan, and of a quick plan."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Final

from benchmarks.reporting import Json, table, verdict
from benchmarks.scaling.worth import service

from hetserve.base.units import QPS
from hetserve.planning import plan
from hetserve.scaling import InForce, ScalingRules, decide
from hetserve.scaling.plans.answers import Answers
from hetserve.scaling.plans.grid import up_to_grid
from hetserve.scaling.plans.problems import free_problem, growing_problem
from hetserve.testing.scaling import facts, steady

TITLE: Final = "Speed of a decision"
_RUNS: Final = 500
_LOADS: Final = (10.0, 25.0, 50.0)


def measure(quick: bool) -> Json:
    problem, rules, ask = service(), ScalingRules(), Answers()
    runs = _RUNS // 10 if quick else _RUNS
    decisions, plans = [], []
    for load in _LOADS:
        needed = up_to_grid(load / rules.saturation)
        counts = plan(free_problem(problem, rules, (), needed, {})).counts
        given = facts(steady(load), dict(counts), load, problem=problem)
        assert given.in_force == InForce(counts, QPS(load))
        decide(given, ask)  # what the instances hold is worked out once
        decisions += _times(lambda given=given: decide(given, ask), runs)  # type: ignore[misc]
        more = growing_problem(problem, rules, counts, up_to_grid(1.3 * needed), {})
        plans += _times(lambda more=more: plan(more, quick=True), max(runs // 50, 3))  # type: ignore[misc]
    return {"decision": statistics.median(decisions), "plan": statistics.median(plans), "types": len(problem.types)}


def _times(work: Callable[[], object], runs: int) -> list[float]:
    work()
    spent = []
    for _ in range(runs):
        began = time.perf_counter()
        work()
        spent.append(time.perf_counter() - began)
    return spent


def describe(data: Json) -> str:
    decision, made = 1000 * data["decision"], 1000 * data["plan"]
    rows = [
        ("decision without a new plan, median", "< 1 ms", f"{decision:.2f} ms", verdict(decision < 1)),
        (f"quick plan of {data['types']} types, median", "< 30 ms", f"{made:.1f} ms", verdict(made < 30)),
    ]
    return table(("what", "goal", "figure", ""), rows)
