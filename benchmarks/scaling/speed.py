"""Time of a decision: without a new plan, and of a quick plan.

The operator asks for a quick plan only where nothing runs: the first plan of a service, of any counts. The plan of more
instances, of which no type loses one, is measured beside it.
"""

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
from hetserve.scaling.plans.problems import free_problem, growing_problem, up_to_grid
from testing.scaling import facts, steady

TITLE: Final = "Speed of a decision"
_RUNS: Final = 500
_LOADS: Final = (10.0, 25.0, 50.0)


def measure(quick: bool) -> Json:
    problem, rules, ask = service(), ScalingRules(), Answers()
    runs = _RUNS // 10 if quick else _RUNS
    rounds = max(runs // 50, 3)
    decisions, firsts, plans = [], [], []
    for load in _LOADS:
        needed = up_to_grid(load / rules.saturation)
        first = free_problem(problem, rules, (), needed, {})
        firsts += _times(lambda first=first: plan(first, quick=True), rounds)  # type: ignore[misc]
        counts = plan(first).counts
        given = facts(steady(load), dict(counts), load, problem=problem)
        assert given.in_force == InForce(counts, QPS(load))
        decide(given, ask)  # what the instances hold is worked out once
        decisions += _times(lambda given=given: decide(given, ask), runs)  # type: ignore[misc]
        more = growing_problem(problem, rules, counts, up_to_grid(1.3 * needed), {})
        plans += _times(lambda more=more: plan(more, quick=True), rounds)  # type: ignore[misc]
    return {
        "decision": statistics.median(decisions),
        "first": statistics.median(firsts),
        "plan": statistics.median(plans),
        "types": len(problem.types),
    }


def _times(work: Callable[[], object], runs: int) -> list[float]:
    work()
    spent = []
    for _ in range(runs):
        began = time.perf_counter()
        work()
        spent.append(time.perf_counter() - began)
    return spent


def describe(data: Json) -> str:
    decision, types = 1000 * data["decision"], f"{data['types']} types, median"
    rows = [
        ("decision without a new plan, median", "< 1 ms", f"{decision:.2f} ms", verdict(decision < 1)),
        _quick(f"quick first plan of {types}", data.get("first")),
        _quick(f"quick plan of more instances of {types}", data["plan"]),
    ]
    return table(("what", "goal", "figure", ""), rows)


def _quick(what: str, seconds: float | None) -> tuple[str, str, str, str]:
    """A row. seconds: None: a run of before has no such figure."""
    if seconds is None:
        return what, "< 30 ms", "not measured", "-"
    return what, "< 30 ms", f"{1000 * seconds:.1f} ms", verdict(1000 * seconds < 30)
