"""Quick plans of planner flow, beside the tried ones of the same run: what they cost, and whether they hold.

Loads are those of the least costs that the report keeps; the pools' seed is no planner's.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from benchmarks.flow import report, workers
from benchmarks.flow.judge import RIVALS, Judge, Numbers
from benchmarks.flow.measure import long_trial, numbers_of
from benchmarks.flow.pools import carrying
from benchmarks.reporting import Json

from hetserve.planning import Plan, Problem, plan
from hetserve.planning.reach import capacity_of

_REPEATS = 3


def measure_all(asked: Sequence[Problem], jobs: int, command: str) -> None:
    """Of the pools that the report has; command: that asked for it."""
    least = report.KEPT.load("least")
    if least is None:
        raise SystemExit("nothing is kept in docs/results/flow: measure the pools first")
    loads: dict[str, list[float]] = {}
    for row in least[1]["rows"]:
        loads.setdefault(row["name"], []).append(row["load"])
    known = [given for given in asked if given.service in loads]
    found = workers.run(measured, [(given, loads[given.service]) for given in known], jobs)
    cases = [case for given in known for case in found[given.service]["cases"]]
    seconds = sum(found[given.service]["seconds"] for given in known)
    report.KEPT.save("quick", report.about(command, seconds), {"pools": len(known), "cases": cases})


def measured(given: Problem, loads: Sequence[float]) -> Json:
    """A case for each load [queries/s]."""
    started, judge = time.process_time(), Judge(given)
    cases = [_case(judge, load) for load in loads]
    return {"cases": cases, "seconds": time.process_time() - started}


def _case(judge: Judge, load: float) -> Json:
    """Costs in micro-dollars/h, None without a plan; theory and held [queries/s] of the quick plan's counts."""
    asked = carrying(judge.given, load)
    tried, quick = plan(asked), plan(asked, quick=True)
    case: Json = {
        "name": asked.service,
        "load": load,
        "types": len(asked.types),
        "tried": tried.cost if tried.feasible else None,
        "quick": quick.cost if quick.feasible else None,
        "seconds": min(_spent(asked) for _ in range(_REPEATS)),
    }
    return {**case, **_held(judge, quick, load)} if quick.feasible else case


def _spent(asked: Problem) -> float:
    """Processor seconds of a quick plan."""
    started = time.process_time()
    plan(asked, quick=True)
    return time.process_time() - started


def _held(judge: Judge, quick: Plan, load: float) -> Json:
    numbers: Numbers = numbers_of(judge.given, quick)
    trial = long_trial(judge, numbers, load)
    theory = capacity_of(carrying(judge.given, load), quick.counts, quick=True).held
    return {**trial, "theory": theory, "held": judge.rate(numbers, RIVALS, theory)}
