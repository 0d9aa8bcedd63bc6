"""Fits a latency profile to samples: a table of means and spreads, or a line."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, TypeVar

import numpy as np

from hetserve.api.model_profile import QUANTILES
from hetserve.base.humps import hump_words
from hetserve.profiles.measurements import Samples
from hetserve.registry.choices import FitKind

Key = TypeVar("Key")
STRAIGHT: Final = 0.05
"""Largest relative error for which `auto` chooses a line."""

TABLE_LIMIT: Final = 256
_ENOUGH_FOR_QUANTILES: Final = 20
_ENOUGH_TO_DROP: Final = 5
_MAD_TO_SD: Final = 1.4826
# Outliers are this many standard deviations off their batch's median, but not within 5 %: steady hardware has little
# deviation.
_OUTLIER: Final = 10.0
_LEAST_LIMIT: Final = 0.05


class Line(NamedTuple):
    intercept: float
    slope: float

    def at(self, batch: float) -> float:
        return self.intercept + self.slope * batch


@dataclass(frozen=True, slots=True)
class MeasuredBatch:
    """Samples of one batch, in seconds.

    quantiles: by field name, from 20 samples on. variation: standard deviation / mean, for 2 to 19 samples.
    """

    batch: int
    count: int
    mean: float
    quantiles: Mapping[str, float] | None = None
    variation: float | None = None


@dataclass(frozen=True, slots=True)
class Fit:
    """Statistics of all batches, the line through their means, and the chosen kind.

    variation: relative standard deviation around the line; None for fewer than three samples. errors: relative error of
    the line per entry. why: of the choice. notes: for the user.
    """

    kind: Literal["linear", "table"]
    entries: tuple[MeasuredBatch, ...]
    line: Line
    variation: float | None
    errors: tuple[float, ...]
    why: str
    notes: tuple[str, ...] = ()

    @property
    def worst(self) -> tuple[int, float]:
        error, entry = max(zip(self.errors, self.entries, strict=True), key=lambda pair: (pair[0], -pair[1].batch))
        return entry.batch, error


def fit_samples(samples: Samples, kind: FitKind = "auto", *, keep_wild: bool = False) -> Fit:
    """Fit of the samples.

    kind: `auto` chooses a line (least squares, as for Kairos) if at least three batches were measured and it misses no
    mean by more than 5 %. keep_wild: keep cold starts; else a batch loses them, with a note, if they are one sample or
    at most 1 %.
    """
    notes: list[str] = []
    kept = samples.by_batch if keep_wild else without_outliers(samples.by_batch, notes, "samples")
    entries = tuple(_entry(batch, latencies, notes) for batch, latencies in kept.items())
    line = least_squares([e.batch for e in entries], [e.mean for e in entries])
    errors = tuple(abs(line.at(e.batch) / e.mean - 1) for e in entries)
    chosen, why = _kind(kind, len(entries), max(errors))
    if chosen == "table" and len(entries) > TABLE_LIMIT:
        notes.append(f"{len(entries)} batches were measured: {TABLE_LIMIT} of them, evenly chosen, make the table")
    shown = thinned(entries) if chosen == "table" else ()
    odd = hump_words([entry.batch for entry in shown], [entry.mean for entry in shown])
    return Fit(chosen, entries, line, _around(line, kept), errors, why, (*notes, *([odd] if odd else [])))


def thinned(entries: tuple[MeasuredBatch, ...]) -> tuple[MeasuredBatch, ...]:
    if len(entries) <= TABLE_LIMIT:
        return entries
    return tuple(entries[i] for i in np.linspace(0, len(entries) - 1, TABLE_LIMIT).round().astype(int).tolist())


def least_squares(batches: Sequence[int], latencies: Sequence[float]) -> Line:
    """Line of least squared errors, intercept and slope at least 0; one distinct batch gives a constant."""
    x, y = np.array(batches, dtype=np.float64), np.array(latencies, dtype=np.float64)
    mean_x, mean_y = float(x.sum() / len(x)), float(y.sum() / len(x))
    variance = float(((x - mean_x) ** 2).sum())
    # By rounding, equal batches may have a tiny variance.
    one_batch = x.min() == x.max() or variance <= 0
    slope = 0.0 if one_batch else float(((x - mean_x) * (y - mean_y)).sum()) / variance
    if slope <= 0:
        return Line(mean_y, 0.0)
    intercept = mean_y - slope * mean_x
    return Line(intercept, slope) if intercept >= 0 else Line(0.0, float((x * y).sum() / (x * x).sum()))


def outlier_limit(ratios: Sequence[float]) -> float:
    """Distance from 1 beyond which latency / median of its batch is an outlier.

    ratios: of all batches; their median absolute deviation is the scale.
    """
    middle = float(np.median(ratios))
    return max(_LEAST_LIMIT, _OUTLIER * _MAD_TO_SD * float(np.median(np.abs(np.array(ratios) / middle - 1))))


def without_outliers(
    measured: Mapping[Key, tuple[float, ...]], notes: list[str], what: str
) -> Mapping[Key, tuple[float, ...]]:
    """Latencies by batch or run without single cold starts and stalls; a note says how many of `what` these were."""
    medians = {key: float(np.median(own)) for key, own in measured.items()}
    limit = outlier_limit([x / medians[key] for key, own in measured.items() for x in own])
    kept: dict[Key, tuple[float, ...]] = {}
    for key, own in measured.items():
        near = tuple(x for x in own if abs(x / medians[key] - 1) <= limit)
        few = len(own) - len(near) <= max(1, len(own) // 100)
        kept[key] = near if few and len(own) >= _ENOUGH_TO_DROP else own
    count = sum(map(len, measured.values()))
    dropped = count - sum(map(len, kept.values()))
    if dropped:
        notes.append(f"{dropped} of {count} {what} left out as cold starts or stalls (--keep-wild counts them)")
    return kept


def _kind(kind: FitKind, batches: int, error: float) -> tuple[Literal["linear", "table"], str]:
    off = f"the line is at most {error * 100:.1f} % off at a measured batch"
    if kind != "auto":
        return kind, f"as asked; {off}"
    if batches < 3:
        return "table", f"{batches} batches are too few to tell a line from a table"
    return ("linear", off) if error <= STRAIGHT else ("table", f"{off}: over {STRAIGHT * 100:.0f} %")


def _entry(batch: int, latencies: tuple[float, ...], notes: list[str]) -> MeasuredBatch:
    count, mean = len(latencies), math.fsum(latencies) / len(latencies)
    if count < 2:
        return MeasuredBatch(batch, count, mean)
    if count < _ENOUGH_FOR_QUANTILES:
        return MeasuredBatch(batch, count, mean, variation=float(np.std(latencies, ddof=1)) / mean)
    quantiles = {name: float(np.quantile(latencies, p)) for name, p in QUANTILES}
    if quantiles["p99"] < mean:
        notes.append(f"batch {batch}: a few very slow queries put the mean above the p99, which is raised to it")
        quantiles["p99"] = mean
    return MeasuredBatch(batch, count, mean, quantiles)


def _around(line: Line, by_batch: Mapping[int, tuple[float, ...]]) -> float | None:
    ratios = [x / line.at(batch) - 1 for batch, latencies in by_batch.items() for x in latencies]
    if len(ratios) < 3:
        return None
    return math.sqrt(math.fsum(ratio * ratio for ratio in ratios) / len(ratios))
