"""Kairos's five models at three budgets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from benchmarks.flow.parts import least, most
from benchmarks.flow.parts.figures import OURS, goals
from benchmarks.reporting import Json, table

TITLE: Final = "Kairos's five models"
_WORDS: Final = """Same simulation and seeds; q/s on seeds that no planner saw. No planner was tuned on these.
"""


def collect(records: Sequence[Json]) -> Json:
    return {"most": most.collect(records), "least": least.collect(records)}


def describe(data: Json) -> str:
    rows = data["most"]["rows"]
    names = [name for name in most.PLANNERS if any(name in row["plans"] for row in rows)]
    head = ("model, $/h", *(f"`{name}`" for name in names), "best known", "fluid ceiling")
    lines = [
        (row["name"], *(f"{row['held'].get(name, 0.0):.4g}" for name in names), f"{row['best']:.4g}", _ceiling(row))
        for row in rows
    ]
    parts = [_WORDS, table(head, lines)]
    if OURS in names:
        lowest = min(_over_robust(row) for row in rows)
        parts.append(goals([("q/s over `robust`'s, least", ">= 0.995", f"{lowest:.3f}", lowest >= 0.995)]))
    return "\n".join([*parts, least.describe(data["least"])])


def _ceiling(row: Json) -> str:
    return f"{row['ceiling']:.4g}" if row["ceiling"] else "-"


def _over_robust(row: Json) -> float:
    theirs = row["held"].get("robust", 0.0)
    return row["held"].get(OURS, 0.0) / theirs if theirs else 1.0
