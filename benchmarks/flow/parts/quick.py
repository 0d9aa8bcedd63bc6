"""Quick plans beside tried ones: cost, whether they hold, time, and the theory that judges them."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Final

from benchmarks.flow.parts.figures import goals
from benchmarks.reporting import Json, table

TITLE: Final = "Quick plans"
_WORDS: Final = """Plans without a trial, for the loads of "Least cost" on {pools} of the pools: {cases} cases.
Instead of trials, queueing theory says what counts hold
([0056](../decisions/0056-queueing-theory-judges-what-is-not-tried.md)). It was chosen on other pools. Costs are over
those of the tried plan, made in the same run. A plan holds if no more queries are late than allowed in
5 x 50,000, and no backlog grows. Of the demo and of {wide} problems of the second family the planner's own trials say
whether plans hold; where they cannot, a plan counts neither as tried nor as held.
"""
_FEW: Final = 4


def describe(data: Json) -> str:
    cases = data["cases"]
    both = [case for case in cases if case["tried"] and case["quick"]]
    made = [case for case in cases if case["quick"]]
    over = [case["quick"] / case["tried"] for case in both]
    said = [case["theory"] / case["held"] for case in made if case["held"] > 0]
    words = _WORDS.format(pools=data["pools"], cases=len(cases), wide=len(data.get("wide", ())))
    wide = [row["over"] for row in data.get("wide", ()) if row["over"]]
    rows = [
        ("cost over the tried plan's", *_spread(over)),
        ("the same, second family", *_spread(wide)),
        ("rate that theory says over the rate that is held", *_spread(said)),
        ("share of the queries that are late, of quick plans that do not hold", *_spread(_late(made))),
    ]
    found = table(("what", "least", "median", "p90", "most"), rows)
    return "\n".join([words, found, _goals(made, both, over, data.get("demo", ()), data.get("wide", ()))])


def _late(made: Sequence[Json]) -> list[float]:
    return [case["late"] for case in made if not case["holds"]]


def _goals(
    made: Sequence[Json], both: Sequence[Json], over: Sequence[float], demo: Sequence[Json], wide: Sequence[Json]
) -> str:
    few = [1000 * case["seconds"] for case in made if case["types"] <= _FEW]
    spent, middle, most = statistics.median(few), statistics.median(over), _p90(over)
    others = [row["over"] for row in wide if row["over"]]
    shown = ", ".join(f"{row['name']} {row['over']:.2f}" for row in demo)
    return goals(
        [
            ("quick plans that hold", ">= 95 %", *_held(made)),
            ("the same, second family and demo", ">= 95 %", *_held([*wide, *demo])),
            ("cost over the tried plan's, median", "<= 1.1", f"{middle:.3f}", middle <= 1.1),
            ("the same, p90", "<= 1.25", f"{most:.3f}", most <= 1.25),
            ("the same, second family: p90", "<= 1.25", f"{_p90(others):.3f}", _p90(others) <= 1.25),
            ("each of the demo's over its tried plan", "<= 1.3", shown, all(row["over"] <= 1.3 for row in demo)),
            ("a tried plan where a quick one is made", "", f"{len(both)} of {len(made)}", None),
            (f"processor time of a quick plan, up to {_FEW} types, median", "< 30 ms", f"{spent:.1f} ms", spent < 30),
        ]
    )


def _held(cases: Sequence[Json]) -> tuple[str, bool]:
    """How many hold of those that can be tried, and whether that is enough."""
    known = [case["holds"] for case in cases if case["holds"] is not None]
    return f"{sum(known)} of {len(known)}", sum(known) >= 0.95 * len(known)


def _p90(values: Sequence[float]) -> float:
    return sorted(values)[int(0.9 * (len(values) - 1))] if values else 0.0


def _spread(values: Sequence[float]) -> tuple[str, ...]:
    """Least, median, p90, most."""
    if not values:
        return ("-",) * 4
    ranked = sorted(values)
    figures = ranked[0], statistics.median(ranked), _p90(ranked), ranked[-1]
    return tuple(f"{figure:.3f}" for figure in figures)
