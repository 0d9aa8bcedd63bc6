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
([0056](../decisions/0056-queueing-theory-judges-what-is-not-tried.md)): counts must hold 5 % more than the load by
it. Both were chosen on pools of other seeds, after a first run on these had shown p99.9 as too hopeful. Costs are over
those of the tried plan, made in the same run. A plan holds if no more queries are late than allowed in
5 x 50,000, and no backlog grows.
"""
_FEW: Final = 4


def describe(data: Json) -> str:
    cases = data["cases"]
    both = [case for case in cases if case["tried"] and case["quick"]]
    made = [case for case in cases if case["quick"]]
    over = [case["quick"] / case["tried"] for case in both]
    said = [case["theory"] / case["held"] for case in made if case["held"] > 0]
    words = _WORDS.format(pools=data["pools"], cases=len(cases))
    rows = [
        ("cost over the tried plan's", *_spread(over)),
        ("rate that theory says over the rate that is held", *_spread(said)),
        ("share of the queries that are late, of quick plans that do not hold", *_spread(_late(made))),
    ]
    return "\n".join([words, table(("what", "least", "median", "p90", "most"), rows), _goals(made, both, over)])


def _late(made: Sequence[Json]) -> list[float]:
    return [case["late"] for case in made if not case["holds"]]


def _goals(made: Sequence[Json], both: Sequence[Json], over: Sequence[float]) -> str:
    holds = sum(case["holds"] for case in made)
    few = [1000 * case["seconds"] for case in made if case["types"] <= _FEW]
    spent, middle = statistics.median(few), statistics.median(over)
    return goals(
        [
            ("quick plans that hold", ">= 95 %", f"{holds} of {len(made)}", holds >= 0.95 * len(made)),
            ("cost over the tried plan's, median", "<= 1.2", f"{middle:.3f}", middle <= 1.2),
            ("a tried plan where a quick one is made", "", f"{len(both)} of {len(made)}", None),
            (f"processor time of a quick plan, up to {_FEW} types, median", "< 30 ms", f"{spent:.1f} ms", spent < 30),
        ]
    )


def _spread(values: Sequence[float]) -> tuple[str, ...]:
    """Least, median, p90, most."""
    if not values:
        return ("-",) * 4
    ranked = sorted(values)
    figures = ranked[0], statistics.median(ranked), ranked[int(0.9 * (len(ranked) - 1))], ranked[-1]
    return tuple(f"{figure:.3f}" for figure in figures)
