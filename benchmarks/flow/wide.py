"""Planner flow and the planners beside it on problems from all that the API accepts, held against laws.

Mixes by name, 1 to 12 types up to ten thousand times apart in speed and price, tables with humps, loads from a trickle.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from random import Random
from typing import Final

from benchmarks.flow import report, workers
from benchmarks.reporting import Json

from hetserve.planning import Problem
from testing.plan_laws import broken_laws
from testing.wide_problems import Seeded, rising_loads, wide_problem

COUNT: Final = 200
LOADS: Final = 4
_SEED: Final = 51_907
"""No test and no planner uses it."""


def wide_pools(count: int = COUNT, seed: int = _SEED) -> tuple[tuple[Problem, tuple[float, ...]], ...]:
    """Problems, each with rising loads [queries/s]; each depends on its number and the seed alone."""
    return tuple(_drawn(seed, number) for number in range(count))


def _drawn(seed: int, number: int) -> tuple[Problem, tuple[float, ...]]:
    source = Seeded(Random(f"{seed}-{number}"))  # noqa: S311
    problem = wide_problem(source, f"wide-{number}")
    return problem, rising_loads(source, problem, LOADS)


def measure_all(count: int, jobs: int, *, keep: bool) -> None:
    """Of so many problems; keep: for the report."""
    asked = wide_pools(count)
    found = workers.run(measured, asked, jobs)
    rows = [found[problem.service] for problem, _ in asked]
    seconds = sum(row["seconds"] for row in rows)
    if keep:
        command = "make bench-flow FLAGS=" + ("wide" if count == COUNT else f'"wide --wide {count}"')
        report.KEPT.save("wide", report.about(command, seconds), {"rows": rows})


def measured(given: Problem, loads: Sequence[float]) -> Json:
    """What one problem breaks."""
    started = time.process_time()
    broken = [{"law": one.law, "planner": one.planner, "words": one.words} for one in broken_laws(given, loads)]
    return {"name": given.service, "plans": len(loads), "broken": broken, "seconds": time.process_time() - started}
