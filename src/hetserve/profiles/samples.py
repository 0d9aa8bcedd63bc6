"""Measured latencies of a model alone on its instance, and how columns of a CSV file state them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from hetserve.api.scalars import dns_label
from hetserve.base.csv_rows import CsvError, CsvRow, CsvRows

LATENCY_UNITS: Final = {"latency_ms": ("ms", 1e-3), "latency": ("s", 1.0)}
"""Unit and seconds, by column."""
# The apiserver counts nanoseconds; more than a day is a mistake of units.
SHORTEST: Final = 1e-9
LONGEST: Final = 86_400.0
MODEL_COLUMN: Final = "model"
TYPE_COLUMNS: Final = ("instance", "instance_type")


@dataclass(frozen=True, slots=True)
class Samples:
    """Latencies in seconds by ascending batch, in the file's order."""

    name: str
    by_batch: Mapping[int, tuple[float, ...]]

    @property
    def count(self) -> int:
        return sum(len(latencies) for latencies in self.by_batch.values())


def latency_column(table: CsvRows) -> str:
    """The column of latencies. Raises CsvError for none or two."""
    there = [column for column in LATENCY_UNITS if column in table.columns]
    if len(there) == 1:
        return there[0]
    wrong = "both latency_ms and latency: keep one" if there else "no column latency_ms, nor latency (in seconds)"
    raise CsvError([f"{table.name}, line 1: {wrong}; there are: {', '.join(table.columns)}"])


def of_type(table: CsvRows, instance_type: str) -> tuple[CsvRow, ...]:
    """Rows of the type; all where no column states it. Raises CsvError for none."""
    rows = table.rows
    for column in TYPE_COLUMNS:
        if column in table.columns:
            rows = chosen(table, rows, column, instance_type)
    return rows


def chosen(table: CsvRows, rows: tuple[CsvRow, ...], column: str, wanted: str) -> tuple[CsvRow, ...]:
    """Rows with this value; models compare as DNS labels. Raises CsvError for none."""
    kept = tuple(row for row in rows if stands_for(row, column, wanted))
    if rows and not kept:
        there = ", ".join(sorted({row.values[column] for row in rows})[:20])
        raise CsvError([f"{table.name}: no line with {column} {wanted}; there are: {there}"])
    return kept


def stands_for(row: CsvRow, column: str, wanted: str) -> bool:
    value = row.values[column]
    return wanted in (value, value if column in TYPE_COLUMNS else dns_label(value))
