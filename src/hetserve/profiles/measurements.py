"""Reads measurements from a CSV file, one line per query: of a model alone, of its copies, of others beside it."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from hetserve.api.model_profile import MAX_BATCH
from hetserve.api.scalars import dns_label
from hetserve.base.csv_rows import CsvError, CsvRow, CsvRows, read_rows

LATENCY_UNITS: Final = {"latency_ms": ("ms", 1e-3), "latency": ("s", 1.0)}
"""Unit and seconds, by column."""
# The apiserver counts nanoseconds; more than a day is a mistake of units.
SHORTEST: Final = 1e-9
LONGEST: Final = 86_400.0
MODEL_COLUMN: Final = "model"
TYPE_COLUMNS: Final = ("instance", "instance_type")
MOST_COPIES: Final = 64
_ALIKE: Final = 0.8
COPIES: Final = "copies"
NEIGHBOUR: Final = "neighbour"
NEIGHBOUR_BATCH: Final = "neighbour_batch"
COUNTERS: Final = {"GPU_UTIL": (100.0, "%"), "SM_ACTIVE": (1.0, ""), "GR_ENGINE_ACTIVE": (1.0, "")}
"""Utilisation counters by column, in either case: their greatest value and its unit, as DCGM exports them."""


@dataclass(frozen=True, slots=True)
class Samples:
    """Latencies in seconds by ascending batch, in the file's order."""

    name: str
    by_batch: Mapping[int, tuple[float, ...]]

    @property
    def count(self) -> int:
        return sum(len(latencies) for latencies in self.by_batch.values())


class Run(NamedTuple):
    """What ran on one GPU: `copies` of a model, each always busy, or one beside a neighbour that is always busy."""

    model: str
    batch: int
    copies: int = 1
    neighbour: str = ""
    neighbour_batch: int = 0

    @property
    def alone(self) -> bool:
        return self.copies == 1 and not self.neighbour


@dataclass(frozen=True, slots=True)
class Measurements:
    """Latencies in seconds, in the file's order.

    alone: of the model itself. runs: every run that matters to what it shares: its own alone and as copies, others
    alone and beside it. counters: mean utilisation from 0 to 1 by counter and batch. beside_others: lines of the model
    itself beside these neighbours, which belong into their profiles.
    """

    name: str
    model: str
    alone: Samples
    runs: Mapping[Run, tuple[float, ...]]
    counters: Mapping[str, Mapping[int, float]]
    beside_others: Mapping[str, int]

    @property
    def copied(self) -> bool:
        return any(run.copies > 1 for run in self.runs)

    @property
    def neighboured(self) -> bool:
        return any(run.neighbour for run in self.runs)


def read_measurements(text: str, name: str, model: str, instance_type: str) -> Measurements:
    """Measurements of a CSV text with the columns `batch` and `latency_ms`, or `latency` in seconds.

    With a column `instance` (`instance_type`), only lines of this type count; with a column `model`, of the other
    models only those with the model as `neighbour`, and what these are alone. Models compare as DNS labels. `copies`
    without a value is 1. Raises CsvError with every error.
    """
    table = read_rows(text, name, ["batch"])
    _refuse_misspelled(table)
    reader = _MeasurementReader(table, _latency_column(table), model)
    rows = _of_type(table, instance_type)
    own = rows
    if MODEL_COLUMN in table.columns:
        own = _chosen(table, rows, MODEL_COLUMN, model)
    else:
        reader.refuse_neighbours()
    queries = [reader.query(row, model) for row in own]
    counters = reader.utilisation((row, run) for row, (run, _) in zip(own, queries, strict=True))
    queries += reader.others(rows)
    table.done()
    runs: dict[Run, list[float]] = {}
    for run, latency in queries:
        runs.setdefault(run, []).append(latency)
    return _sorted_out(name, model, {run: tuple(own) for run, own in sorted(runs.items())}, counters)


def _latency_column(table: CsvRows) -> str:
    """The column of latencies. Raises CsvError for none or two."""
    there = [column for column in LATENCY_UNITS if column in table.columns]
    if len(there) == 1:
        return there[0]
    wrong = "both latency_ms and latency: keep one" if there else "no column latency_ms, nor latency (in seconds)"
    raise CsvError([f"{table.name}, line 1: {wrong}; there are: {', '.join(table.columns)}"])


def _of_type(table: CsvRows, instance_type: str) -> tuple[CsvRow, ...]:
    """Rows of the type; all where no column states it. Raises CsvError for none."""
    rows = table.rows
    for column in TYPE_COLUMNS:
        if column in table.columns:
            rows = _chosen(table, rows, column, instance_type)
    return rows


def _chosen(table: CsvRows, rows: tuple[CsvRow, ...], column: str, wanted: str) -> tuple[CsvRow, ...]:
    """Rows with this value; models compare as DNS labels. Raises CsvError for none."""
    kept = tuple(row for row in rows if _stands_for(row, column, wanted))
    if rows and not kept:
        there = ", ".join(sorted({row.values[column] for row in rows})[:20])
        raise CsvError([f"{table.name}: no line with {column} {wanted}; there are: {there}"])
    return kept


def _stands_for(row: CsvRow, column: str, wanted: str) -> bool:
    value = row.values[column]
    return wanted in (value, value if column in TYPE_COLUMNS else dns_label(value))


def _refuse_misspelled(table: CsvRows) -> None:
    """Raises CsvError for a column such as `neighbor`: what it says would be lost, and its lines count as alone."""
    known = [column for column in (COPIES, NEIGHBOUR, NEIGHBOUR_BATCH) if column not in table.columns]
    errors = [
        f"{table.name}, line 1: column {table.columns[column]}: is it {near[0]}? Write it so, or rename the column"
        for column in table.columns
        if column not in {COPIES, NEIGHBOUR, NEIGHBOUR_BATCH}
        and (near := difflib.get_close_matches(column, known, 1, _ALIKE))
    ]
    if errors:
        raise CsvError(errors)


def _sorted_out(
    name: str, model: str, runs: Mapping[Run, tuple[float, ...]], counters: Mapping[str, Mapping[int, float]]
) -> Measurements:
    alone = {run.batch: own for run, own in runs.items() if run.model == model and run.alone}
    if not alone:
        message = "a profile is what a model does alone on its GPU; measure this, too"
        raise CsvError([f"{name}: no line of {model} alone (copies 1 or empty, no neighbour): {message}"])
    foreign = [run for run in runs if run.model == model and run.neighbour]
    beside = {n: sum(len(runs[run]) for run in foreign if run.neighbour == n) for n in {r.neighbour for r in foreign}}
    shared = {run: own for run, own in runs.items() if run not in foreign}
    return Measurements(name, model, Samples(name, alone), shared, counters, dict(sorted(beside.items())))


@dataclass(frozen=True, slots=True)
class _MeasurementReader:
    table: CsvRows
    column: str
    model: str

    def query(self, row: CsvRow, model: str) -> tuple[Run, float]:
        unit, scale = LATENCY_UNITS[self.column]
        batch = self.table.whole(row, "batch", MAX_BATCH)
        latency = self.table.positive(row, self.column, SHORTEST / scale, LONGEST / scale, unit) * scale
        copies = self.table.whole(row, COPIES, MOST_COPIES) if row.values.get(COPIES) else 1
        neighbour, neighbour_batch = self._neighbour(row, model)
        if neighbour and copies > 1:
            self.table.wrong(
                row, COPIES, "copies and neighbours are measured in runs of their own: write copies 1 here"
            )
        return Run(model, batch, copies, neighbour, neighbour_batch), latency

    def refuse_neighbours(self) -> None:
        """Raises CsvError for neighbours in a file that does not say whose latencies it has."""
        if any(row.values.get(NEIGHBOUR) for row in self.table.rows):
            message = "a profile states what its model does to the latency of another"
            raise CsvError([f"{self.table.name}, line 1: column {NEIGHBOUR} needs a column {MODEL_COLUMN}: {message}"])

    def others(self, rows: tuple[CsvRow, ...]) -> list[tuple[Run, float]]:
        """Queries of other models beside this one, and of these models alone."""
        if MODEL_COLUMN not in self.table.columns or NEIGHBOUR not in self.table.columns:
            return []
        foreign = [row for row in rows if not _stands_for(row, MODEL_COLUMN, self.model)]
        slowed = {dns_label(row.values[MODEL_COLUMN]) for row in foreign if _stands_for(row, NEIGHBOUR, self.model)}
        return [
            self.query(row, model)
            for row in foreign
            if (model := dns_label(row.values[MODEL_COLUMN])) in slowed
            and (_stands_for(row, NEIGHBOUR, self.model) or self._is_alone(row))
        ]

    def utilisation(self, own: Iterable[tuple[CsvRow, Run]]) -> dict[str, dict[int, float]]:
        """Mean utilisation of the model alone, by counter and batch."""
        found: dict[str, dict[int, list[float]]] = {}
        columns = [column for column in self.table.columns if column.upper() in COUNTERS]
        for row, run in own:
            for column in columns:
                if run.alone and row.values[column]:
                    most, unit = COUNTERS[column.upper()]
                    value = self.table.positive(row, column, 0.0, most, unit) / most
                    found.setdefault(column.upper(), {}).setdefault(run.batch, []).append(value)
        return {
            counter: {batch: math.fsum(values) / len(values) for batch, values in sorted(by_batch.items())}
            for counter, by_batch in found.items()
        }

    def _neighbour(self, row: CsvRow, model: str) -> tuple[str, int]:
        """Name and batch of the neighbour; ("", 0) for none."""
        name, batch = row.values.get(NEIGHBOUR, ""), row.values.get(NEIGHBOUR_BATCH, "")
        if not name and not batch:
            return "", 0
        if not name:
            self.table.wrong(row, NEIGHBOUR_BATCH, f"needs the neighbour's model in column {NEIGHBOUR}")
            return "", 0
        if dns_label(name) == model:
            self.table.wrong(
                row, NEIGHBOUR, "is the model itself; for a run of copies write copies 2, without a neighbour"
            )
        if not batch:
            self.table.wrong(row, NEIGHBOUR, f"needs the items of its queries in column {NEIGHBOUR_BATCH}")
            return dns_label(name), 0
        return dns_label(name), self.table.whole(row, NEIGHBOUR_BATCH, MAX_BATCH)

    @staticmethod
    def _is_alone(row: CsvRow) -> bool:
        return not row.values[NEIGHBOUR] and row.values.get(COPIES, "").removesuffix(".0") in {"", "1"}
