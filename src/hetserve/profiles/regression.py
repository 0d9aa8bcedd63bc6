"""Robust lines through latencies, intercept and slope at least 0, and the limit of outliers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

_Floats = NDArray[np.float64]
# Huber's constant: 95 % efficiency on normal noise. 1.4826 x MAD estimates a standard deviation.
_HUBER: Final = 1.345
MAD_TO_SD: Final = 1.4826
_ROUNDS: Final = 30
_STARTING_BATCHES: Final = 64
# Outliers are this many standard deviations off their batch's median, but not within 5 %: steady hardware has little
# deviation.
_OUTLIER: Final = 10.0
_LEAST_LIMIT: Final = 0.05


class Line(NamedTuple):
    intercept: float
    slope: float

    def at(self, batch: float) -> float:
        return self.intercept + self.slope * batch


def least_squares(batches: Sequence[int], latencies: Sequence[float]) -> Line:
    """Line of least squared errors, unweighted (as the Kairos paper fits).

    One distinct batch gives a constant. Raises ValueError for no point, or for different lengths.
    """
    x, y = _arrays(batches, latencies)
    return _fit(x, y, np.ones_like(x))


def robust_line(batches: Sequence[int], latencies: Sequence[float]) -> Line:
    """Line by relative error: Theil-Sen's, refined by Huber's weights."""
    x, y = _arrays(batches, latencies)
    line = _theil_sen(x, y)
    for _ in range(_ROUNDS):
        predicted = np.maximum(line.intercept + line.slope * x, np.finfo(float).tiny)
        residual = np.abs(y / predicted - 1)
        scale = max(MAD_TO_SD * float(np.median(residual)), 1e-9)
        # By Huber's weights alone, a latency ten scales off would still pull.
        weights = np.where(residual > 10 * scale, 0.0, np.minimum(1.0, _HUBER * scale / np.maximum(residual, 1e-300)))
        moved = _fit(x, y, weights / predicted**2)
        if np.allclose(moved, line, rtol=1e-9, atol=0.0):
            break
        line = moved
    return line


def _arrays(batches: Sequence[int], latencies: Sequence[float]) -> tuple[_Floats, _Floats]:
    if not len(batches) or len(batches) != len(latencies):
        raise ValueError(f"{len(batches)} batches and {len(latencies)} latencies: a line needs at least one pair")
    return np.array(batches, dtype=np.float64), np.array(latencies, dtype=np.float64)


def _fit(x: _Floats, y: _Floats, weights: _Floats) -> Line:
    """Weighted least squares; at most one of the two limits applies."""
    total = weights.sum()
    mean_x, mean_y = float((weights * x).sum() / total), float((weights * y).sum() / total)
    variance = float((weights * (x - mean_x) ** 2).sum())
    counting = x[weights > 0]
    # By rounding, equal batches may have a tiny variance.
    one_batch = counting.min() == counting.max() or variance <= 0
    slope = 0.0 if one_batch else float((weights * (x - mean_x) * (y - mean_y)).sum()) / variance
    if slope <= 0:
        return Line(mean_y, 0.0)
    intercept = mean_y - slope * mean_x
    if intercept < 0:
        return Line(0.0, float((weights * x * y).sum() / (weights * x * x).sum()))
    return Line(intercept, slope)


def _theil_sen(x: _Floats, y: _Floats) -> Line:
    """Median of the slopes between pairs of at most 64 points, spread over the batches."""
    order = np.argsort(x, kind="stable")
    x, y = x[order], y[order]
    if len(x) > _STARTING_BATCHES:
        chosen = np.linspace(0, len(x) - 1, _STARTING_BATCHES).round().astype(np.int64)
        x, y = x[chosen], y[chosen]
    i, j = np.triu_indices(len(x), k=1)
    apart = x[j] > x[i]
    if not apart.any():
        return Line(float(np.median(y)), 0.0)
    slope = max(0.0, float(np.median((y[j] - y[i])[apart] / (x[j] - x[i])[apart])))
    intercept = float(np.median(y - slope * x))
    return Line(intercept, slope) if intercept >= 0 else Line(0.0, float(np.median(y / x)))


def outlier_limit(ratios: Sequence[float]) -> float:
    """Distance from 1 beyond which latency / median of its batch is an outlier.

    ratios: of all batches; their median absolute deviation is the scale.
    """
    middle = float(np.median(ratios))
    return max(_LEAST_LIMIT, _OUTLIER * MAD_TO_SD * float(np.median(np.abs(np.array(ratios) / middle - 1))))
