"""Variation of the latency of equal queries: quantiles relative to the mean, linear in between, log-normal tails."""

from __future__ import annotations

import itertools
import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Final, Self

KNOTS: Final = (0.0, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 1.0)
"""Probabilities of stored spreads; they include every quantile of a ModelProfile."""

_END: Final = 1e-4
_NORMAL: Final = NormalDist()
# Limit for quantiles that contradict their mean; a full bend would be a staircase.
_MOST_BENT: Final = 0.9


@dataclass(frozen=True, slots=True)
class Spread:
    """Inverse distribution function of latency / mean latency, linear between its knots.

    probabilities: strictly increasing from 0 to 1. ratios: positive, not decreasing.
    """

    probabilities: tuple[float, ...]
    ratios: tuple[float, ...]

    def __post_init__(self) -> None:
        p, r = self.probabilities, self.ratios
        if len(p) != len(r) or len(p) < 2 or p[0] != 0.0 or p[-1] != 1.0 or not _rises(p, strictly=True):
            raise ValueError(f"the probabilities of a spread must rise from 0 to 1, one per ratio, got {list(p)}")
        if not (all(math.isfinite(ratio) and ratio > 0 for ratio in r) and _rises(r, strictly=False)):
            raise ValueError(f"the ratios of a spread must be positive and not decrease, got {list(r)}")

    @classmethod
    def of_quantiles(cls, ratios: Mapping[float, float]) -> Self:
        """Spread through quantiles, {probability: quantile / mean}; at least one probability below 1.

        Tails are log-normal with the sigma between the median and the highest quantile below 1; without a median, the
        one that gives this quantile to a mean of 1. Between quantiles the curve is bent until its mean is 1. Raises
        ValueError for quantiles that decrease or are not positive.
        """
        known = sorted(ratios)
        inner = [p for p in known if 0 < p < 1]
        if not inner:
            raise ValueError(f"a spread needs a quantile between min and max, for example p99, got {known}")
        sigma = _sigma(ratios, inner[-1])
        knots = tuple(sorted({*KNOTS, *known}))
        rough = tuple(ratios[p] if p in ratios else _log_normal(p, known, ratios, sigma) for p in knots)
        return cls(knots, _bent(knots, rough, ratios))

    @classmethod
    def of_variation(cls, coefficient: float) -> Self:
        """Log-normal spread with this coefficient of variation (standard deviation / mean).

        Raises ValueError unless it is finite and at least 0.
        """
        if not (math.isfinite(coefficient) and coefficient >= 0):
            raise ValueError(f"coefficient of variation {coefficient}: must be a finite number of at least 0")
        sigma = math.sqrt(math.log1p(coefficient**2))
        rough = cls(KNOTS, tuple(math.exp(sigma * _z(p)) for p in KNOTS))
        # Chords lie above a convex curve: their mean is too high.
        return cls(KNOTS, tuple(ratio / rough.mean for ratio in rough.ratios))

    @property
    def mean(self) -> float:
        """1, unless measured quantiles contradict their mean."""
        return _mean(self.probabilities, self.ratios)

    def ratio(self, probability: float) -> float:
        """Latency / mean that a share `probability` of the queries does not exceed."""
        i = bisect_left(self.probabilities, probability)
        if i == len(self.probabilities):
            raise ValueError(f"probability {probability}: must be between 0 and 1")
        if i == 0 or self.probabilities[i] == probability:
            return self.ratios[i]
        left, right = self.probabilities[i - 1], self.probabilities[i]
        low, high = self.ratios[i - 1], self.ratios[i]
        # Against rounding.
        return min(low + (high - low) * ((probability - left) / (right - left)), high)

    def on(self, probabilities: Sequence[float]) -> tuple[float, ...]:
        """Ratios at these probabilities."""
        if probabilities == self.probabilities:
            return self.ratios
        return tuple(self.ratio(p) for p in probabilities)

    def toward(self, other: Spread, weight: float) -> Spread:
        """Spread between this one (weight 0) and another (1), quantile by quantile."""
        knots = tuple(sorted({*self.probabilities, *other.probabilities}))
        mixed = (a + (b - a) * weight for a, b in zip(self.on(knots), other.on(knots), strict=True))
        return Spread(knots, tuple(itertools.accumulate(mixed, max)))


def _rises(values: tuple[float, ...], *, strictly: bool) -> bool:
    return all(a < b or (a == b and not strictly) for a, b in itertools.pairwise(values))


def _mean(p: Sequence[float], r: Sequence[float]) -> float:
    return math.fsum((p[i + 1] - p[i]) * (r[i] + r[i + 1]) / 2 for i in range(len(p) - 1))


def _bent(knots: tuple[float, ...], straight: tuple[float, ...], known: Mapping[float, float]) -> tuple[float, ...]:
    """Ratios between and below the known ones, moved toward a limit until the mean is 1.

    The limit is the next known ratio; below all, half the ratio. The upper tail, which decides the p99, stays.
    """
    off = _mean(knots, straight) - 1
    given = sorted(known)

    def bound(p: float, ratio: float) -> float:
        i = bisect_left(given, p)
        if i == len(given) or given[i] == p:
            return ratio
        if off > 0:
            return known[given[i - 1]] if i > 0 else ratio / 2
        return known[given[i]]

    bounds = [bound(p, ratio) for p, ratio in zip(knots, straight, strict=True)]
    reach = _mean(knots, bounds) - 1 - off
    share = 0.0 if reach == 0 else min(max(-off / reach, 0.0), _MOST_BENT)
    return tuple(itertools.accumulate((r + (b - r) * share for r, b in zip(straight, bounds, strict=True)), max))


def _z(probability: float) -> float:
    return _NORMAL.inv_cdf(min(max(probability, _END), 1 - _END))


def _sigma(ratios: Mapping[float, float], top: float) -> float:
    z, median = _z(top), ratios.get(0.5)
    if median is not None and top > 0.5:
        return max(0.0, math.log(ratios[top] / median) / z)
    # exp(sigma z - sigma^2 / 2) = ratio: the smaller root, or z.
    return max(0.0, z - math.sqrt(max(0.0, z * z - 2 * math.log(ratios[top]))))


def _log_normal(p: float, known: Sequence[float], ratios: Mapping[float, float], sigma: float) -> float:
    """Ratio at p on the log-normal through the known ratios around it, or with sigma through the nearest.

    Next to min and max it is linear: these depend on the number of samples.
    """
    i = bisect_left(known, p)
    if i in {0, len(known)}:
        end = known[max(i - 1, 0)]
        return ratios[end] * math.exp(sigma * (_z(p) - _z(end)))
    left, right = known[i - 1], known[i]
    if left == 0.0 or right == 1.0:
        return ratios[left] + (ratios[right] - ratios[left]) * (p - left) / (right - left)
    weight = (_z(p) - _z(left)) / (_z(right) - _z(left))
    return ratios[left] * math.exp(math.log(ratios[right] / ratios[left]) * weight)


CONSTANT: Final = Spread((0.0, 1.0), (1.0, 1.0))
