"""Quick plans of planner flow, beside the tried ones of the same run: what they cost, and whether they hold.

Loads of the pools are those of the least costs that the report keeps; the pools' seed is no planner's. Beside them: the
services of the demo, and problems of the second family.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from benchmarks.flow import report, workers
from benchmarks.flow.judge import RIVALS, Judge, Numbers
from benchmarks.flow.measure import long_trial, numbers_of
from benchmarks.flow.pools import carrying
from benchmarks.flow.wide import wide_pools
from benchmarks.reporting import Json

from hetserve.api.manifests import read_manifests
from hetserve.base.units import QPS
from hetserve.planning import Plan, Problem, build_problem, plan
from hetserve.planning.flow.planner import trial
from hetserve.planning.plan import Trial
from hetserve.planning.reach import capacity_of

SAMPLES: Final = Path(__file__).resolve().parents[2] / "manifests" / "samples"
WIDE: Final = 24
_WIDE_SEED: Final = 61_213
"""No test, no planner and no other step uses it."""
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
    beside = workers.run(compared, [(one,) for one in (*demo_services(), *wide_problems())], jobs)
    seconds += sum(row.pop("seconds") for row in beside.values())
    demo, wide = ([beside[one.service] for one in asked] for asked in (demo_services(), wide_problems()))
    kept: Json = {"pools": len(known), "cases": cases, "demo": demo, "wide": wide}
    report.KEPT.save("quick", report.about(command, seconds), kept)


def demo_services() -> tuple[Problem, ...]:
    """As the operator plans them on an empty cluster."""
    read = read_manifests(tuple(str(path) for path in sorted(SAMPLES.glob("*.yaml"))))
    made = [build_problem(service, read.types, read.profiles) for service in read.services]
    return tuple(one for one in made if isinstance(one, Problem))


def wide_problems() -> tuple[Problem, ...]:
    """The second family, each at the last but one of its loads."""
    return tuple(replace(given, load=QPS(loads[-2])) for given, loads in wide_pools(WIDE, _WIDE_SEED))


def compared(asked: Problem) -> Json:
    """over: the quick plan's cost over the tried one's, or the rate held in reverse; None: one of them is not there.

    holds: what the planner's own trials say of the quick plan; None: they take too long, or for the most throughput.
    """
    started = time.process_time()
    quick, tried = plan(asked, quick=True), plan(asked)
    said = trial(asked, quick.counts) if quick.feasible else Trial()
    over = quick.cost / tried.cost if quick.feasible and tried.feasible and tried.tried else None
    if asked.objective == "MaxThroughput":
        over = tried.held_qps / said.held if tried.held_qps and said.held else None
    return {"name": asked.service, "over": over, "holds": said.holds, "seconds": time.process_time() - started}


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
