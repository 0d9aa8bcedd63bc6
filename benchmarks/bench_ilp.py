"""HetSev's integer program at 20 types with caps, running instances and launch terms, and the heuristic's gap.

In processor time. Run: .venv/bin/python -m benchmarks.bench_ilp [--quick]; benchmarks.planning_report writes it down.
"""

from __future__ import annotations

import dataclasses
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from random import Random
from typing import TypeVar

from hetserve.base.units import Seconds
from hetserve.planning import Plan, Problem
from hetserve.planning.check import violations
from hetserve.planning.mincost.greedy import plan_greedy
from hetserve.planning.mincost.ilp import LeastCostSearch, plan_ilp
from hetserve.planning.mincost.milp import Chain
from hetserve.planning.mincost.model import build_model
from testing.planning import line, min_cost, option

T = TypeVar("T")
Row = tuple[str, str, str]

INSTANCES = 10 if "--quick" in sys.argv else 100


def instance(seed: int, types: int = 20) -> Problem:
    """Types of 10 to 316 q/s; prices per query/s vary by a factor of three; caps, running ones, slow launches."""
    source = Random(seed)  # noqa: S311
    options = []
    for i in range(types):
        rate = 10 ** source.uniform(1, 2.5)
        price = rate * 10 ** source.uniform(-2.4, -1.9)
        options.append(
            option(
                f"t{i:02d}",
                f"{price:.4f}",
                line(1000 / rate),
                max_instances=source.randint(1, 8),
                running=source.choice((0, 0, 0, 1, 2, 3)),
                launch_time=Seconds(source.choice((10.0, 60.0, 180.0))),
            )
        )
    return min_cost(options, source.uniform(200, 4000), saturation_threshold=0.8, launch_weight=1 / 3600)


def gap(problem: Problem, bound: Callable[[Problem, Plan], Problem] = lambda problem, _: problem) -> float | None:
    """How much dearer the heuristic is than the optimum, in percent; None if nothing carries the load.

    bound: limits of the optimum, given the heuristic's plan.
    """
    if LeastCostSearch(build_model(problem, "ilp"), Chain()).least_cost() is None:
        return None
    heuristic = plan_greedy(problem)
    assert heuristic.feasible
    assert not violations(problem, heuristic)
    model = build_model(bound(problem, heuristic), "ilp")
    best = LeastCostSearch(model, Chain()).least_cost()
    assert best is not None
    held = dict(heuristic.counts)
    return 100 * (model.choice([held[option.name] for option in model.types]).objective / best.objective - 1)


def keeping(problem: Problem, heuristic: Plan) -> Problem:
    """Every running instance that the heuristic keeps stays."""
    held = dict(heuristic.counts)
    types = (dataclasses.replace(o, min_instances=min(o.running, held[o.name])) for o in problem.types)
    return dataclasses.replace(problem, types=tuple(types))


def fresh(problem: Problem) -> Problem:
    return dataclasses.replace(problem, types=tuple(dataclasses.replace(o, running=0) for o in problem.types))


def timed(work: Callable[[], T]) -> tuple[T, float]:
    """Answer and processor time in milliseconds."""
    started = time.process_time()
    answer = work()
    return answer, 1e3 * (time.process_time() - started)


def time_rows() -> Iterator[Row]:
    plan_ilp(instance(-1))
    proofs, plans, infeasible = [], [], 0
    for seed in range(INSTANCES):
        problem = instance(seed)
        best, spent = timed(lambda: LeastCostSearch(build_model(problem, "ilp"), Chain()).least_cost())  # noqa: B023  called at once
        proofs.append(spent)
        made, spent = timed(lambda: plan_ilp(problem))  # noqa: B023
        plans.append(spent)
        infeasible += best is None
        assert made.feasible == (best is not None)
        assert not (made.feasible and violations(problem, made))
    yield (
        f"{INSTANCES} instances of 20 types with caps, running instances, launch terms: infeasible",
        str(infeasible),
        "",
    )
    for what, times in (
        ("optimum, proven and shown to be the only one", proofs),
        ("whole plan: optimum, runner-up, next step, words", plans),
    ):
        yield what, f"median {statistics.median(times):.1f}, max {max(times):.1f} ms", "median < 100 ms"


def gap_rows() -> Iterator[Row]:
    for what, found, goal in (
        ("gap of the heuristic, from nothing", lambda problem: gap(fresh(problem)), "median < 5 %"),
        ("gap with running instances, to the optimum that may exchange them", gap, "median < 5 %"),
        (
            "gap with running instances, to the optimum that keeps those the heuristic keeps",
            lambda problem: gap(problem, keeping),
            "median < 5 %",
        ),
    ):
        gaps = [value for seed in range(INSTANCES) if (value := found(instance(seed))) is not None]
        high = sorted(gaps)[int(0.9 * len(gaps))]
        yield what, f"median {statistics.median(gaps):.2f}, p90 {high:.1f}, max {max(gaps):.1f} %", goal


def rows() -> Iterator[Row]:
    yield from time_rows()
    yield from gap_rows()


def main() -> None:
    for what, value, goal in rows():
        print(f"{what:80} {value:42} {('goal: ' + goal) if goal else ''}".rstrip(), flush=True)


if __name__ == "__main__":
    main()
