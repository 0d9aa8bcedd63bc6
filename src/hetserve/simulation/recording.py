"""Recorded queries: times and, optionally, batches."""

from __future__ import annotations

import csv
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hetserve.base.files import read_lines
from hetserve.demand import BatchMix

MOST_BYTES: Final = 128 << 20
"""Ten million queries."""
_TIMES: Final = ("time", "arrival", "timestamp")
_BATCHES: Final = ("batch", "batch_bin")


@dataclass(frozen=True, slots=True)
class Recording:
    """times: [query] in seconds, not decreasing. batches: [query] in items; None: drawn from a mix."""

    times: tuple[float, ...]
    batches: tuple[int, ...] | None = None

    def __len__(self) -> int:
        return len(self.times)

    @property
    def rate(self) -> float:
        return (len(self.times) - 1) / (self.times[-1] - self.times[0])

    @property
    def mix(self) -> BatchMix | None:
        return None if self.batches is None else BatchMix.of((batch, 1.0) for batch in self.batches)


def read_recording(path: Path) -> Recording:
    """Recording from a CSV file with columns `time` [s] and, optionally, `batch` [items].

    Raises ValueError, with file, line, column and value; UnreadableError.
    """
    try:
        times, batches = _read(path)
    except csv.Error as error:
        raise ValueError(f"{path}: {error}") from None
    if len(times) < 2 or times[-1] == times[0]:
        raise ValueError(f"{path}: {len(times)} lines; at least two queries at different times are needed")
    recording = Recording(tuple(times), None if batches is None else tuple(batches))
    if not 0 < recording.rate < math.inf:
        raise ValueError(f"{path}: from {times[0]:g} to {times[-1]:g} s is no span of time that can be replayed")
    return recording


def _read(path: Path) -> tuple[list[float], list[int] | None]:
    """Times and batches; a byte-order mark is ignored."""
    with read_lines(str(path), MOST_BYTES) as file:
        rows = csv.DictReader(file)
        rows.fieldnames = columns = [name.strip().lower() for name in rows.fieldnames or []]
        time = next((name for name in _TIMES if name in columns), None)
        batch = next((name for name in _BATCHES if name in columns), None)
        if time is None:
            raise ValueError(f"{path}: no column `time`; columns are: {', '.join(columns) or 'none'}")
        times: list[float] = []
        batches: list[int] = []
        for row in rows:
            where = f"{path}, line {rows.line_num}"
            times.append(_time(where, time, row[time], times[-1] if times else -math.inf))
            if batch is not None:
                batches.append(_items(where, batch, row[batch]))
    return times, batches if batch is not None else None


def _time(where: str, column: str, text: str | None, before: float) -> float:
    try:
        value = float(text or "")
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ValueError(f"{where}, column {column}: {text!r} is not a number of seconds")
    if value < before:
        raise ValueError(f"{where}, column {column}: {text} comes before the time of the line above, {before:g}")
    return value


def _items(where: str, column: str, text: str | None) -> int:
    try:
        value = int(text or "")
    except ValueError:
        value = 0
    if value < 1:
        raise ValueError(f"{where}, column {column}: {text!r} is not a whole number of at least 1")
    return value
