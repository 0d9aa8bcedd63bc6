"""Load traces: a service's rate of queries over time, from a CSV file with the columns `time_s` and `qps`."""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from hetserve.base.csv_rows import CsvRow, CsvRows, read_rows
from hetserve.base.files import read_text
from hetserve.base.units import QPS, Seconds, parse_number

MOST_BYTES: Final = 16 << 20
TIME: Final = "time_s"
RATE: Final = "qps"
MOST_QPS: Final = 1e9
"""As spec.load.expectedQPS."""

_REMEDY: Final = "sort the lines, keep one of each time"

BadSamples = Literal["allowed", "refused"]


@dataclass(frozen=True, slots=True)
class LoadTrace:
    """A rate from each time until the next, the last one for good.

    times: seconds, strictly increasing. rates: [time], queries/s; None where the cell is empty; also nan, infinite and
    negative ones where bad samples are allowed.
    """

    times: tuple[Seconds, ...]
    rates: tuple[QPS | None, ...]

    def __post_init__(self) -> None:
        if not self.times or len(self.times) != len(self.rates):
            raise ValueError(f"{len(self.times)} times and {len(self.rates)} rates: need as many, at least one")
        if any(not a < b for a, b in zip(self.times, self.times[1:], strict=False)):
            raise ValueError("the times of a load trace must be strictly increasing")

    @property
    def start(self) -> Seconds:
        return self.times[0]

    @property
    def span(self) -> Seconds:
        """Seconds from the first time to the last."""
        return Seconds(self.times[-1] - self.times[0])

    def rate_at(self, time: Seconds) -> QPS | None:
        """Rate at a time of the trace; before its first time, the first."""
        return self.rates[max(bisect_right(self.times, time) - 1, 0)]


def read_trace(path: Path, *, bad_samples: BadSamples) -> LoadTrace:
    """Load trace from a CSV file with the columns `time_s` [s], strictly increasing, and `qps` [queries/s].

    bad_samples: whether empty, nan, infinite and negative cells of qps are kept as they are, or errors. A cell that is
    no number is an error either way. Raises CsvError, with file, line, column, value and remedy; UnreadableError.
    """
    rows = read_rows(read_text(str(path), MOST_BYTES), str(path), (TIME, RATE))
    times = [_time(rows, row) for row in rows.rows]
    rates = [_rate(rows, row, bad_samples) for row in rows.rows]
    for row, before, time in zip(rows.rows[1:], times, times[1:], strict=False):
        if before is not None and time is not None and time <= before:
            rows.wrong(row, TIME, f"must be above the time before, {before:.10g}: {_REMEDY}")
    rows.done()
    return LoadTrace(tuple(time for time in times if time is not None), tuple(rates))


def _time(rows: CsvRows, row: CsvRow) -> Seconds | None:
    time = _number(row.values[TIME])
    if time is None or not math.isfinite(time):
        rows.wrong(row, TIME, "must be a number of seconds, for example 60")
        return None
    return Seconds(time)


def _rate(rows: CsvRows, row: CsvRow, bad_samples: BadSamples) -> QPS | None:
    text = row.values[RATE]
    rate = _number(text)
    is_good = rate is not None and 0 <= rate <= MOST_QPS
    is_bad_sample = not text or (rate is not None and not 0 <= rate < math.inf)
    if not is_good and not (bad_samples == "allowed" and is_bad_sample):
        rows.wrong(row, RATE, f"must be a number of queries/s from 0 to {MOST_QPS:g}, for example 12.5")
    return None if rate is None else QPS(rate)


def _number(text: str) -> float | None:
    try:
        return parse_number(text)
    except ValueError:
        return None
