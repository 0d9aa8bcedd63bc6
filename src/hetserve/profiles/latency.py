"""Latency by batch size as a line or a table, None above `max_batch`; and as arrays for compiled code."""

from __future__ import annotations

import itertools
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from hetserve.base.units import Seconds
from hetserve.profiles.spread import CONSTANT, KNOTS, Spread


@dataclass(frozen=True, slots=True)
class LinearProfile:
    """intercept + slope x batch (Kairos: Pearson r > 0.99), one spread.

    quantile: latency that `percentile` percent do not exceed; the mean if the spread is unknown.
    """

    intercept: Seconds
    slope: Seconds
    max_batch: int | None = None
    variation: Spread | None = None

    def mean(self, batch: int) -> Seconds | None:
        if self.max_batch is not None and batch > self.max_batch:
            return None
        return Seconds(self.intercept + self.slope * batch)

    def spread(self, batch: int) -> Spread | None:
        return None if self.mean(batch) is None else self.variation or CONSTANT

    def quantile(self, batch: int, percentile: float) -> Seconds | None:
        return _quantile(self, batch, percentile)


@dataclass(frozen=True, slots=True)
class TableProfile:
    """Means and spreads at strictly increasing batches, linear in between.

    Below the first batch the first entry applies. An entry without a spread gets its neighbours'.
    """

    batches: tuple[int, ...]
    means: tuple[Seconds, ...]
    spreads: tuple[Spread | None, ...] = ()
    max_batch: int | None = None
    _measured: tuple[int, ...] = field(init=False, repr=False, compare=False)
    _known: tuple[Spread, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        spreads = self.spreads or (None,) * len(self.batches)
        if not self.batches or not len(self.batches) == len(self.means) == len(spreads):
            raise ValueError("a latency table needs at least one entry, each with a batch and a mean")
        if any(a >= b for a, b in zip(self.batches, self.batches[1:], strict=False)):
            raise ValueError(f"table batches must be strictly increasing, got {list(self.batches)}")
        known = [(batch, one) for batch, one in zip(self.batches, spreads, strict=True) if one is not None]
        limit = self.batches[-1] if self.max_batch is None else min(self.max_batch, self.batches[-1])
        object.__setattr__(self, "spreads", spreads)
        object.__setattr__(self, "max_batch", limit)
        object.__setattr__(self, "_measured", tuple(batch for batch, _ in known))
        object.__setattr__(self, "_known", tuple(one for _, one in known))

    def mean(self, batch: int) -> Seconds | None:
        if self.max_batch is not None and batch > self.max_batch:
            return None
        left, right, weight = _between(self.batches, batch)
        return Seconds(self.means[left] * (1 - weight) + self.means[right] * weight)

    def spread(self, batch: int) -> Spread | None:
        if self.max_batch is not None and batch > self.max_batch:
            return None
        if not self._known:
            return CONSTANT
        left, right, weight = _between(self._measured, batch)
        if left == right:
            return self._known[left]
        return self._known[left].toward(self._known[right], weight)

    def quantile(self, batch: int, percentile: float) -> Seconds | None:
        return _quantile(self, batch, percentile)


LatencyProfile = LinearProfile | TableProfile


def slowed(profile: LatencyProfile, factor: float) -> LatencyProfile:
    """The profile with every latency multiplied by a factor; spreads are ratios and stay."""
    if isinstance(profile, LinearProfile):
        line = Seconds(profile.intercept * factor), Seconds(profile.slope * factor)
        return LinearProfile(*line, profile.max_batch, profile.variation)
    means = tuple(Seconds(mean * factor) for mean in profile.means)
    return TableProfile(profile.batches, means, profile.spreads, profile.max_batch)


def _quantile(profile: LatencyProfile, batch: int, percentile: float) -> Seconds | None:
    mean, spread = profile.mean(batch), profile.spread(batch)
    if mean is None or spread is None:
        return None
    return Seconds(mean * spread.ratio(percentile / 100))


def _between(batches: tuple[int, ...], batch: int) -> tuple[int, int, float]:
    i = bisect_left(batches, batch)
    if i == len(batches):
        return i - 1, i - 1, 0.0
    if i == 0 or batches[i] == batch:
        return i, i, 0.0
    return i - 1, i, (batch - batches[i - 1]) / (batches[i] - batches[i - 1])


@dataclass(frozen=True, slots=True, eq=False)
class DenseLatency:
    """Latencies of several instance types at the same batches; arrays are read-only.

    batches: [size], strictly increasing. means: [type, size] in seconds, infinite if not servable. probabilities:
    [knot] from 0 to 1. ratios: [type, size, knot], quantile / mean, linear in between; 1 if not servable.
    """

    batches: NDArray[np.int64]
    means: NDArray[np.float64]
    probabilities: NDArray[np.float64]
    ratios: NDArray[np.float64]

    def quantiles(self, percentile: float) -> NDArray[np.float64]:
        """[type, size], seconds that `percentile` percent of the queries do not exceed."""
        wanted = percentile / 100
        right = min(max(int(np.searchsorted(self.probabilities, wanted)), 1), len(self.probabilities) - 1)
        low, high = self.probabilities[right - 1 : right + 1]
        weight = (wanted - low) / (high - low)
        at: NDArray[np.float64] = self.ratios[..., right - 1] * (1 - weight) + self.ratios[..., right] * weight
        return self.means * at


def dense(profiles: Sequence[LatencyProfile], batches: Sequence[int]) -> DenseLatency:
    """Arrays of profiles, in their order.

    Raises ValueError for no profile, no batch, or batches that do not strictly increase from 1 on.
    """
    if not profiles or not len(batches):
        raise ValueError(f"{len(profiles)} profiles at {len(batches)} batches: at least one of each is needed")
    if batches[0] < 1 or any(a >= b for a, b in itertools.pairwise(batches)):
        raise ValueError(f"batches must be at least 1 and strictly increasing, got {list(batches)[:10]}")
    known = [[profile.mean(b) for b in batches] for profile in profiles]
    means = np.array([[np.inf if mean is None else mean for mean in row] for row in known], dtype=np.float64)
    given = [[profile.spread(b) or CONSTANT for b in batches] for profile in profiles]
    at_knots = {spread: spread.on(KNOTS) for spread in dict.fromkeys(itertools.chain(*given))}
    spreads = [[at_knots[spread] for spread in row] for row in given]
    arrays = (np.array(batches, dtype=np.int64), means, np.array(KNOTS), np.array(spreads, dtype=np.float64))
    for array in arrays:
        array.flags.writeable = False
    return DenseLatency(*arrays)
