"""Planner flow measured again, beside the other planners and the best known that the report keeps.

For a change of the planner alone: minutes, where the search for the best known takes hours.
"""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.flow import report, workers
from benchmarks.flow.judge import PROOF, Judge
from benchmarks.flow.measure import long_trial, numbers_of, plans_of
from benchmarks.flow.parts.figures import OURS
from benchmarks.flow.pools import carrying
from benchmarks.reporting import Json

from hetserve.planning import Problem


def measure_all(asked: Sequence[Problem], jobs: int, command: str) -> None:
    """Of the pools that the report has; command: that asked for it."""
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
    report.KEPT.save("again", report.about(command, sum(data["seconds"])), data)


def measured(given: Problem, most: Json, least: list[Json]) -> Json:
    """What flow's plans hold now; most, least: the kept rows of the pool, which stay as they are.

    The search for the best known went on from the flow plan of then: what holds more now takes its place.
    """
    judge, fresh = Judge(given), _without_ours(most)
    made, spent = plans_of(given, (OURS,))[OURS]
    seconds = [spent]
    if made.feasible:
        numbers = numbers_of(given, made)
        held = judge.rate(numbers, PROOF, most["best"] or None)
        fresh["plans"][OURS], fresh["says"][OURS], fresh["held"][OURS] = list(numbers), made.held_qps, held
        fresh["ourCeiling"] = made.ceiling_qps
        if held > most["best"]:
            fresh["best"], fresh["bestCounts"] = held, list(numbers)
    rows = [_least(judge, row, seconds) for row in least]
    return {"most": fresh, "least": rows, "seconds": seconds}


def _least(judge: Judge, row: Json, seconds: list[float]) -> Json:
    """seconds: those of the plan are added."""
    asked, fresh = carrying(judge.given, row["load"]), _without_ours(row)
    made, spent = plans_of(asked, (OURS,))[OURS]
    seconds.append(spent)
    if not made.feasible:
        fresh["refused"][OURS] = made.reason
        return fresh
    tried = long_trial(judge, numbers_of(asked, made), row["load"])
    fresh["plans"][OURS], fresh["tried"][OURS] = made.cost, tried
    if tried["holds"] and (row["best"] is None or made.cost < row["best"]):
        fresh["best"], fresh["method"] = made.cost, OURS
    return fresh


def _without_ours(row: Json) -> Json:
    """A copy, in which every planner's figures but ours stand."""
    return {
        key: {name: one for name, one in value.items() if name != OURS} if isinstance(value, dict) else value
        for key, value in row.items()
    }
