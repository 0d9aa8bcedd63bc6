"""Planner flow measured again, beside the other planners and the best known that the report keeps.

For a change of the planner alone: minutes, where the search for the best known takes hours.
"""

from __future__ import annotations

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
    """Of the pools that the report has."""
    most, least = (report.KEPT.load(part) for part in ("most", "least"))
    if most is None or least is None:
        raise SystemExit("nothing is kept in docs/results/flow: measure the pools first")
    rows = {row["name"]: row for row in most[1]["rows"]}
    cases = {name: [row for row in least[1]["rows"] if row["name"] == name] for name in rows}
    known = [given for given in asked if given.service in rows]
    found = workers.run(measured, [(given, rows[given.service], cases[given.service]) for given in known], jobs)
    names = [given.service for given in known]
    data = {
        "most": [found[name]["most"] for name in names],
        "least": [row for name in names for row in found[name]["least"]],
        "before": {"most": [rows[name] for name in names], "least": [row for name in names for row in cases[name]]},
        "seconds": [second for name in names for second in found[name]["seconds"]],
    }
    report.KEPT.save("again", report.about(COMMAND, sum(data["seconds"])), data)


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
