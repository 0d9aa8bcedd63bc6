"""Kairos's five models at three budgets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from benchmarks.flow.parts import least, most
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
    return "\n".join([_WORDS, table(head, lines), least.describe(data["least"])])


def _ceiling(row: Json) -> str:
    return f"{row['ceiling']:.4g}" if row["ceiling"] else "-"
