"""Planner flow measured again, beside the other planners and the best known that the report keeps.

For a change of the planner alone: minutes, where the search for the best known takes hours.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from typing import Final

from benchmarks.flow import report, workers
from benchmarks.flow.judge import LONG, PROOF, Judge
from benchmarks.flow.parts.figures import OURS
from benchmarks.flow.pools import carrying
from benchmarks.reporting import Json

from hetserve.planning import Plan, Problem, plan

COMMAND: Final = "make bench-flow FLAGS=again"


def measure_all(asked: Sequence[Problem], jobs: int) -> None:
    """Of the pools that the report has; its rows of flow are replaced."""
    most, least = (report.KEPT.load(part) for part in ("most", "least"))
    if most is None or least is None:
        raise SystemExit("nothing is kept in docs/results/flow: measure the pools first")
    rows = {row["name"]: row for row in most[1]["rows"]}
    cases = {name: [row for row in least[1]["rows"] if row["name"] == name] for name in rows}
    known = [given for given in asked if given.service in rows]
    found = workers.run(measured, [(given, rows[given.service], cases[given.service]) for given in known], jobs)
    seconds = [second for one in found.values() for second in one["seconds"]]
    print(f"a plan takes {statistics.median(seconds):.2f} s of a processor in the median, {max(seconds):.1f} at most")
    fresh = {name: found[name]["most"] if name in found else row for name, row in rows.items()}
    for part, (about, _), data in (
        ("most", most, [*fresh.values()]),
        ("least", least, [row for name in rows for row in (found[name]["least"] if name in found else cases[name])]),
    ):
        report.KEPT.save(part, {**about, "again": report.about(COMMAND, sum(seconds))}, {"rows": data})


def measured(given: Problem, most: Json, least: list[Json]) -> Json:
    """What flow's plans hold now; most, least: the kept rows of the pool, which stay as they are.

    The search for the best known went on from the flow plan of then: what holds more now takes its place.
    """
    judge = Judge(given)
    started = time.process_time()
    made = plan(given, OURS)
    seconds = [time.process_time() - started]
    fresh = _without_ours(most)
    if made.feasible:
        counts = _counts(given, made)
        held = judge.rate(counts, PROOF, most["best"] or None)
        fresh["plans"][OURS], fresh["says"][OURS], fresh["held"][OURS] = list(counts), made.held_qps, held
        fresh["ourCeiling"] = made.ceiling_qps
        if held > most["best"]:
            fresh["best"], fresh["bestCounts"] = held, list(counts)
    rows = [_least(judge, row, seconds) for row in least]
    return {"most": fresh, "least": rows, "seconds": seconds}


def _least(judge: Judge, row: Json, seconds: list[float]) -> Json:
    asked = carrying(judge.given, row["load"])
    started = time.process_time()
    made = plan(asked, OURS)
    seconds.append(time.process_time() - started)
    fresh = _without_ours(row)
    if not made.feasible:
        fresh["refused"][OURS] = made.reason
        return fresh
    found = judge.trial(_counts(asked, made), row["load"], LONG, whole=True)
    fresh["plans"][OURS] = made.cost
    fresh["tried"][OURS] = {"late": found.late, "steady": found.steady, "holds": found.passed}
    if found.passed and (row["best"] is None or made.cost < row["best"]):
        fresh["best"], fresh["method"] = made.cost, OURS
    return fresh


def _without_ours(row: Json) -> Json:
    """A copy, in which every planner's figures but ours stand."""
    return {
        key: {name: one for name, one in value.items() if name != OURS} if isinstance(value, dict) else value
        for key, value in row.items()
    }


def _counts(given: Problem, made: Plan) -> tuple[int, ...]:
    held = dict(made.counts)
    return tuple(held[option.name] for option in given.types)
