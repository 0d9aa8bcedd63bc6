"""Latency profiles as arrays for compiled code."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hetserve.profiles.latency import LatencyProfile
from hetserve.profiles.spread import CONSTANT, KNOTS


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
    means = np.array([[_finite(profile.mean(b)) for b in batches] for profile in profiles], dtype=np.float64)
    given = [[profile.spread(b) or CONSTANT for b in batches] for profile in profiles]
    known = {spread: spread.on(KNOTS) for spread in dict.fromkeys(itertools.chain(*given))}
    spreads = [[known[spread] for spread in row] for row in given]
    arrays = (np.array(batches, dtype=np.int64), means, np.array(KNOTS), np.array(spreads, dtype=np.float64))
    for array in arrays:
        array.flags.writeable = False
    return DenseLatency(*arrays)


def _finite(latency: float | None) -> float:
    return np.inf if latency is None else latency
