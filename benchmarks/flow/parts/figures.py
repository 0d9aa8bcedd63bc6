"""What the sections share: ratios, their summary, goals."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Final

from benchmarks.reporting import Json, table, verdict

OURS: Final = "flow"
SPREAD: Final = ("mean", "median", "worst")


def ratios(held: Sequence[float], best: Sequence[float]) -> list[float]:
    return [one / top for one, top in zip(held, best, strict=True) if top > 0]


def summary(values: Sequence[float], least: float) -> list[str]:
    """Mean, median, least, and how many are below `least`."""
    if not values:
        return ["-"] * 4
    figures = (statistics.fmean(values), statistics.median(values), min(values))
    return [*(f"{figure:.3f}" for figure in figures), f"{sum(value < least for value in values)} of {len(values)}"]


def goals(rows: Sequence[tuple[str, str, str, bool | None]]) -> str:
    """What, goal, figure, held; None: only reported."""
    marked = [(what, goal, figure, "" if held is None else verdict(held)) for what, goal, figure, held in rows]
    return table(("what", "goal", "figure", ""), marked)


def planned_by_us(rows: Sequence[Json]) -> bool:
    return any(OURS in row["plans"] for row in rows)
