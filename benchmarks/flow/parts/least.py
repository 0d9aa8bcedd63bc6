"""Least cost: which plans carry their load, and what they cost."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Final

from benchmarks.flow.parts.figures import OURS, goals
from benchmarks.reporting import Json, table

TITLE: Final = "Least cost"
PLANNERS: Final = ("flow", "ilp", "greedy")
_WORDS: Final = """Loads of 30 and 60 % of the best known rate: {cases} cases. Every plan that says it carries its load
runs for 5 x 50,000 queries with seeds of no planner: no more late than the percentile allows, no backlog that grows.
Least found: the cheapest that holds so of all plans, the fluid program at bisected margins and their cheaper
neighbours. The spike, on 130 cases of the same shape: 126 of 130 held on new seeds, the least margin that held cost
0.634 of `ilp`'s in the median, 0.174 at least, 1.0 at most; `ilp` held 110 of 126.
"""
_LISTED: Final = 8


def collect(records: Sequence[Json]) -> Json:
    return {"rows": [row(record, case) for record in records for case in record["least"]]}


def row(record: Json, case: Json) -> Json:
    plans = {name: one["cost"] for name, one in case["plans"].items() if one["feasible"]}
    return {
        "name": record["name"],
        "share": case["share"],
        "load": case["load"],
        "allowed": 1 - record["percentile"] / 100,
        "asked": sorted(case["plans"]),
        "plans": plans,
        "refused": {name: one["reason"] for name, one in case["plans"].items() if not one["feasible"]},
        "tried": case["tried"],
        "best": None if case["best"] is None else case["best"]["cost"],
        "method": None if case["best"] is None else case["best"]["method"],
    }


def describe(data: Json) -> str:
    rows = data["rows"]
    lines = [_line(rows, name) for name in PLANNERS if any(name in row["asked"] for row in rows)]
    head = (
        "planner",
        "says it carries",
        "holds",
        "late over allowed, most",
        "over `ilp` where that holds: median, least, most",
        "over the least found: median, p90, most",
        "no plan though one was found",
    )
    parts = [_WORDS.format(cases=len(rows)), table(head, lines), _methods(rows), _refused(rows)]
    if any(OURS in row["asked"] for row in rows):
        parts.append(goals(found(rows)))
    return "\n".join(parts)


def _line(rows: Sequence[Json], planner: str) -> tuple[object, ...]:
    claims = [row for row in rows if planner in row["plans"]]
    over, least = over_ilp(rows, planner), over_least(rows, planner)
    missing = sum(planner in row["asked"] and planner not in row["plans"] and bool(row["best"]) for row in rows)
    return (
        f"`{planner}`",
        len(claims),
        sum(row["tried"][planner]["holds"] for row in claims),
        f"{worst_late(claims, planner):.2f}",
        f"{statistics.median(over):.3f}, {min(over):.3f}, {max(over):.3f} ({len(over)})" if over else "-",
        f"{statistics.median(least):.3f}, {quantile(least, 0.9):.3f}, {max(least):.3f}" if least else "-",
        missing,
    )


def over_ilp(rows: Sequence[Json], planner: str) -> list[float]:
    """Cost over the integer program's, where its plan holds; infinite where the planner has no plan."""
    return [
        row["plans"][planner] / row["plans"]["ilp"] if planner in row["plans"] else math.inf
        for row in rows
        if "ilp" in row["plans"] and row["tried"]["ilp"]["holds"] and planner in row["asked"]
    ]


def over_least(rows: Sequence[Json], planner: str) -> list[float]:
    """Cost of the plans that hold over the least found."""
    return [
        row["plans"][planner] / row["best"]
        for row in rows
        if row["best"] and planner in row["plans"] and row["tried"][planner]["holds"]
    ]


def worst_late(claims: Sequence[Json], planner: str) -> float:
    """Most late queries over those allowed; a backlog that grows is late for ever."""
    tried = [(row["tried"][planner], row["allowed"]) for row in claims]
    return max((one["late"] / allowed if one["steady"] else math.inf for one, allowed in tried), default=0.0)


def quantile(values: Sequence[float], share: float) -> float:
    return sorted(values)[min(int(share * len(values)), len(values) - 1)]


def _methods(rows: Sequence[Json]) -> str:
    by = [row["method"] for row in rows if row["method"]]
    each = ", ".join(f"{name} {by.count(name)}" for name in sorted(set(by), key=lambda name: -by.count(name)))
    return f"The least cost was found by: {each}.\n"


def _refused(rows: Sequence[Json]) -> str:
    """Where we have no plan though one was found."""
    missed = [row for row in rows if OURS in row["refused"] and row["best"]]
    each = (f"{row['name']} at {row['load']:g} q/s ({row['refused'][OURS]})" for row in missed[:_LISTED])
    more = f" and {len(missed) - _LISTED} more" if len(missed) > _LISTED else ""
    return f"`{OURS}` has no plan though one was found: {', '.join(each)}{more}.\n" if missed else ""


def found(rows: Sequence[Json]) -> list[tuple[str, str, str, bool | None]]:
    """What was asked, the goal, the figure, and whether it is held."""
    claims = [row for row in rows if OURS in row["plans"]]
    pools = {row["name"] for row in claims}
    broken = {row["name"] for row in claims if not row["tried"][OURS]["holds"]}
    holding = 1 - len(broken) / len(pools) if pools else 1.0
    late, over, least = worst_late(claims, OURS), over_ilp(rows, OURS), over_least(rows, OURS)
    median, most = (statistics.median(over), max(over)) if over else (math.nan, math.nan)
    near = statistics.median(least) if least else math.nan
    return [
        ("pools on which every plan that says so carries its load", ">= 99 %", f"{holding:.1%}", holding >= 0.99),
        ("late queries over those allowed, most", "<= 1.5", f"{late:.2f}", late <= 1.5),
        ("cost over `ilp`'s where that holds, median", "<= 0.72", f"{median:.3f}", median <= 0.72),
        ("cost over `ilp`'s where that holds, most", "<= 1.0", f"{most:.3f}", most <= 1.0),
        ("cost over the least found, median", "<= 1.08", f"{near:.3f}", near <= 1.08),
    ]
