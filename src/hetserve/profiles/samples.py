"""Reads measured latencies from a CSV file: one line per query."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from hetserve.api.model_profile import MAX_BATCH
from hetserve.api.scalars import dns_label
from hetserve.profiles.csv_rows import CsvError, CsvRow, CsvRows, read_rows

_UNITS: Final = {"latency_ms": ("ms", 1e-3), "latency": ("s", 1.0)}
# The apiserver counts nanoseconds; more than a day is a mistake of units.
SHORTEST: Final = 1e-9
LONGEST: Final = 86_400.0
# Columns that select measurements.
_MODEL_COLUMN: Final = "model"
_TYPE_COLUMNS: Final = ("instance", "instance_type")


@dataclass(frozen=True, slots=True)
class Samples:
    """Latencies in seconds by ascending batch, in the file's order."""

    name: str
    by_batch: Mapping[int, tuple[float, ...]]

    @property
    def count(self) -> int:
        return sum(len(latencies) for latencies in self.by_batch.values())


def read_samples(text: str, name: str, model: str, instance_type: str) -> Samples:
    """Samples of a CSV text with the columns `batch` and `latency_ms`, or `latency` in seconds.

    With a column `model` or `instance` (`instance_type`), only lines of this model and type count; models compare as
    DNS labels. Raises CsvError with every error.
    """
    table = read_rows(text, name, ["batch"])
    column = _latency_column(table)
    unit, scale = _UNITS[column]
    found: dict[int, list[float]] = {}
    for row in _own(table, model, instance_type):
        batch = table.whole(row, "batch", MAX_BATCH)
        latency = table.positive(row, column, SHORTEST / scale, LONGEST / scale, unit) * scale
        found.setdefault(batch, []).append(latency)
    table.done()
    return Samples(name, {batch: tuple(found[batch]) for batch in sorted(found)})


def _latency_column(table: CsvRows) -> str:
    there = [column for column in _UNITS if column in table.columns]
    if len(there) == 1:
        return there[0]
    wrong = "both latency_ms and latency: keep one" if there else "no column latency_ms, nor latency (in seconds)"
    raise CsvError([f"{table.name}, line 1: {wrong}; there are: {', '.join(table.columns)}"])


def _own(table: CsvRows, model: str, instance_type: str) -> tuple[CsvRow, ...]:
    rows = table.rows
    if _MODEL_COLUMN in table.columns:
        rows = _chosen(table, rows, _MODEL_COLUMN, model)
    for column in _TYPE_COLUMNS:
        if column in table.columns:
            rows = _chosen(table, rows, column, instance_type)
    return rows


def _chosen(table: CsvRows, rows: tuple[CsvRow, ...], column: str, wanted: str) -> tuple[CsvRow, ...]:
    def own(row: CsvRow) -> bool:
        value = row.values[column]
        return wanted in (value, dns_label(value) if column == _MODEL_COLUMN else value)

    kept = tuple(row for row in rows if own(row))
    if rows and not kept:
        there = ", ".join(sorted({row.values[column] for row in rows})[:20])
        raise CsvError([f"{table.name}: no line with {column} {wanted}; there are: {there}"])
    return kept
