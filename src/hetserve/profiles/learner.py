"""Learns a latency profile from served queries (Kairos section 5.1): first a line, then a table.

Unlike Kairos's, predictions resist single outliers, and the spread is learnt. A learner is a value: `observe` returns a
new one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from hetserve.base.units import Seconds
from hetserve.profiles.latency import TableProfile
from hetserve.profiles.regression import MAD_TO_SD, Line, outlier_limit, robust_line
from hetserve.profiles.spread import CONSTANT, KNOTS, Spread

# With fewer observations, those this many times off the line do not count. Lines miss real latencies by a factor of
# three at most (kairos data).
_FEW: Final = 8
_OFF_THE_LINE: Final = 5.0
# Fewer residuals give a standard deviation, not quantiles.
_ENOUGH_FOR_QUANTILES: Final = 20


@dataclass(frozen=True, slots=True)
class LearnedProfile:
    line: Line
    table: TableProfile | None
    variation: Spread | None
    max_batch: int | None = None

    def mean(self, batch: int) -> Seconds | None:
        if self.max_batch is not None and batch > self.max_batch:
            return None
        if self.table is None:
            return Seconds(self.line.at(batch))
        nearest = min(max(batch, self.table.batches[0]), self.table.batches[-1])
        known = self.table.mean(nearest)
        assert known is not None  # noqa: S101  within the table
        # A steep line could fall to 0 below the first batch.
        return Seconds(max(known + self.line.slope * (batch - nearest), known / 2))

    def spread(self, batch: int) -> Spread | None:
        return None if self.mean(batch) is None else self.variation or CONSTANT

    def quantile(self, batch: int, percentile: float) -> Seconds | None:
        mean = self.mean(batch)
        return None if mean is None else Seconds(mean * (self.variation or CONSTANT).ratio(percentile / 100))


@dataclass(frozen=True, slots=True)
class Learner:
    """Latencies of one model on one instance type, as served.

    table_after: settled batches before a table replaces the line. settled: observations that settle a batch; 3 outvote
    one outlier. window: latest observations per batch. samples: {batch: latencies in seconds, oldest first}.
    """

    table_after: int = 10
    settled: int = 3
    window: int = 64
    max_batch: int | None = None
    samples: Mapping[int, tuple[float, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, least in (("table_after", 2), ("settled", 1), ("window", self.settled)):
            if getattr(self, name) < least:
                raise ValueError(f"{name} {getattr(self, name)}: must be at least {least}")

    def observe(self, batch: int, seconds: float) -> Learner:
        """Learner that has also seen a query of `batch` items, served in this many seconds.

        Raises ValueError for a batch below 1 or a latency that is not positive and finite.
        """
        if batch < 1:
            raise ValueError(f"batch {batch}: a query carries at least one item")
        if not (math.isfinite(seconds) and seconds > 0):
            raise ValueError(f"latency {seconds} s of batch {batch}: must be a positive finite number")
        recent = (*self.samples.get(batch, ()), float(seconds))[-self.window :]
        return replace(self, samples={**self.samples, batch: recent})

    def profile(self) -> LearnedProfile | None:
        if not self.samples:
            return None
        batches = sorted(self.samples)
        line = robust_line(batches, [float(np.median(self.samples[batch])) for batch in batches])
        credible = {batch: _credible(self.samples[batch], line.at(batch)) for batch in batches}
        known = {batch: kept for batch, kept in credible.items() if len(kept) >= self.settled}
        if len(known) < self.table_after:
            return LearnedProfile(line, None, self._spread_around({b: line.at(b) for b in batches}), self.max_batch)
        medians = {batch: float(np.median(kept)) for batch, kept in known.items()}
        limit = outlier_limit([x / medians[batch] for batch, kept in known.items() for x in kept])
        means = {batch: _trimmed_mean(kept, medians[batch], limit) for batch, kept in known.items()}
        table = TableProfile(tuple(known), tuple(Seconds(means[b]) for b in known))
        return LearnedProfile(line, table, self._spread_around(means, own_means=True), self.max_batch)

    def _spread_around(self, means: Mapping[int, float], *, own_means: bool = False) -> Spread | None:
        """Spread of latency / mean over all batches; own_means: each mean is of just these samples."""
        pooled: list[float] = []
        for batch, mean in means.items():
            count = len(self.samples[batch])
            # Bessel's correction.
            wider = math.sqrt(count / (count - 1)) if own_means and count > 1 else 1.0
            pooled.extend(max(1 + (x / mean - 1) * wider, 0.01) for x in self.samples[batch])
        limit = outlier_limit(pooled)
        middle = float(np.median(pooled))
        ratios = np.array([ratio for ratio in pooled if abs(ratio / middle - 1) <= limit])
        if len(ratios) < self.settled:
            return None
        if len(ratios) < _ENOUGH_FOR_QUANTILES:
            return Spread.of_variation(MAD_TO_SD * float(np.median(np.abs(ratios / middle - 1))))
        # A quantile needs two observations beyond it; the tails are log-normal.
        inner = [p for p in KNOTS if len(ratios) * min(p, 1 - p) >= 2]
        return Spread.of_quantiles({p: float(np.quantile(ratios, p)) for p in inner})


def _credible(samples: tuple[float, ...], expected: float) -> tuple[float, ...]:
    if len(samples) >= _FEW:
        return samples
    return tuple(x for x in samples if expected / _OFF_THE_LINE <= x <= expected * _OFF_THE_LINE)


def _trimmed_mean(samples: tuple[float, ...], median: float, limit: float) -> float:
    kept = [x for x in samples if abs(x / median - 1) <= limit]
    return math.fsum(kept) / len(kept) if kept else median
