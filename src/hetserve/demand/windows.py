"""What a service's load was throughout a window before now, and whither it goes.

A sample holds until the next one, for three steps at most. A window is known if no stretch without a new sample in it
is longer than that, and samples hold for three quarters of it. What is not known is None; of demand that is not Fresh
no window is known. A window of 0 s is the newest sample, while it holds.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from statistics import NormalDist
from typing import Final

import numpy as np

from hetserve.base.units import QPS, Seconds
from hetserve.demand.observed import Demand, Freshness, RateSample, ShareSample

HELD_STEPS: Final = 3.0
"""Steps for which a sample holds, so that two lost scrapes are no gap."""
LEAST_COVER: Final = 0.75
"""Share of a window in which samples must hold."""
_LEAST_SAMPLES: Final = 4
_ROUNDING: Final = 1e-9
_SURE: Final = NormalDist().inv_cdf(0.99)


@dataclass(frozen=True, slots=True)
class Trend:
    """A line through rates. slope, error: [q/s per s]; error: standard error of the slope, infinite if not known."""

    slope: float
    error: float

    def at_least(self, errors: float = 2.0) -> float:
        """Slope [q/s per s] less so many standard errors, towards zero: what noise alone does not explain."""
        doubt = errors * self.error
        return 0.0 if abs(self.slope) <= doubt else math.copysign(abs(self.slope) - doubt, self.slope)


def lowest(demand: Demand, window: Seconds) -> QPS | None:
    """The least rate [queries/s] in the last `window` seconds; None: the window is not known."""
    rates = _throughout(demand, _rates(demand.samples), window)
    return None if rates is None else QPS(min(rates))


def highest(demand: Demand, window: Seconds) -> QPS | None:
    """The largest rate [queries/s] in the last `window` seconds; None: the window is not known.

    Of a lower bound, in two windows of the rate at least: when its target dies such a rate falls to nothing first.
    """
    least = 2 * demand.window if demand.lower_bound else 0.0
    rates = _throughout(demand, _rates(demand.samples), Seconds(max(window, least)))
    return None if rates is None else QPS(max(rates))


def attained_below(demand: Demand, share: float, window: Seconds) -> bool:
    """Whether less than `share` of the queries met the SLO throughout the last `window` seconds.

    False where it is not known: no query ended, or no latency is measured.
    """
    shares = _throughout(demand, [(sample.at, sample.share) for sample in demand.attained], window)
    return shares is not None and max(shares) < share


def surely_missed(demand: Demand, share: float, window: Seconds) -> bool:
    """Whether more queries were late throughout the last `window` seconds than chance makes of `share` in time.

    A window of 30 queries with one late says nothing about 99 %. False where it is not known, as above.
    """
    marks = [(sample.at, float(_is_no_chance(sample, share))) for sample in demand.attained]
    surely = _throughout(demand, marks, window)
    return surely is not None and min(surely) > 0


def is_late(demand: Demand, share: float, window: Seconds) -> bool:
    """Whether queries are late now: less than `share` in time throughout the window, or surely by the newest sample."""
    return attained_below(demand, share, window) or surely_missed(demand, share, Seconds(0.0))


def surely_lower(qps: QPS, window: Seconds) -> QPS:
    """The rate [queries/s] up to which a measured one is lower than `qps` by more than chance, at least 0.

    Both are of queries that arrive independently of each other, counted in a window of so many seconds; the difference
    of the counts has the variance of their sum, and one of a hundred is larger. A window of 0 s says nothing of chance.
    """
    if window <= 0:
        return qps
    unit = _SURE**2 / window
    # Of the difference d: d^2 = unit (2 qps - d). Written without a difference of what is nearly equal.
    return QPS(max(0.0, qps - 4 * unit * qps / (math.sqrt(unit * (unit + 8 * qps)) + unit)))


def _is_no_chance(sample: ShareSample, share: float) -> bool:
    """Whether so many late queries are seen in fewer than one of a hundred windows of a service that keeps its SLO.

    The quantile of the binomial distribution by Cornish and Fisher: mean + z sd + skewness term (Fisher and Cornish,
    "The percentile points of distributions having known cumulants", Technometrics 2 (1960)).
    """
    if sample.queries is None:
        return sample.share < share
    late, allowed = sample.queries * (1 - sample.share), 1 - share
    mean = sample.queries * allowed
    skew = (_SURE**2 - 1) * (1 - 2 * allowed) / 6
    return late > mean + _SURE * math.sqrt(mean * share) + skew


def trend(demand: Demand, window: Seconds) -> Trend | None:
    """Line of least squares through the rates of the last `window` seconds; None: not known, or under four samples.

    Rates over overlapping windows are alike even if the load is noise: two samples d seconds apart correlate by
    1 - d / demand.window. The standard error allows for it (least squares with the covariance of the samples).
    """
    if _throughout(demand, _rates(demand.samples), window) is None:
        return None
    inside = [sample for sample in demand.samples if demand.now - window <= sample.at <= demand.now]
    return _line(inside, demand.window) if len(inside) >= _LEAST_SAMPLES else None


def _line(samples: list[RateSample], window: Seconds) -> Trend | None:
    """Covariance K of the samples up to its scale s2: slope variance = s2 d'Kd / (d'd)^2, s2 = r'r / trace(MK)."""
    at = np.array([sample.at - samples[-1].at for sample in samples])
    rates = np.array([sample.qps for sample in samples], dtype=float)
    offsets = at - at.mean()
    spread = float(offsets @ offsets)
    if spread <= 0:
        return None
    slope = float(offsets @ rates) / spread
    residuals = rates - rates.mean() - slope * offsets
    alike = np.maximum(0.0, 1.0 - np.abs(at[:, None] - at[None, :]) / max(window, _ROUNDING))
    along = float(offsets @ alike @ offsets) / spread
    freedom = len(samples) - float(alike.mean()) * len(samples) - along
    if freedom <= _ROUNDING:
        return Trend(slope, math.inf)
    scale = float(residuals @ residuals) / freedom
    return Trend(slope, math.sqrt(scale * along / spread))


def _rates(samples: Iterable[RateSample]) -> list[tuple[float, float]]:
    return [(sample.at, float(sample.qps)) for sample in samples]


def _throughout(demand: Demand, samples: list[tuple[float, float]], window: Seconds) -> list[float] | None:
    """Values that hold at some moment of the window, oldest first; None: it is not known.

    The last sample from before the window counts while it holds in it. Raises ValueError for a negative window.
    """
    if not window >= 0:
        raise ValueError(f"window {window}: must be a number of seconds of at least 0")
    if demand.freshness is not Freshness.FRESH:
        return None
    begin, hold = demand.now - window, HELD_STEPS * demand.step + _ROUNDING
    past = [(at, value) for at, value in samples if at <= demand.now]
    inside = [(at, value) for at, value in past if at > begin]
    before = [(at, value) for at, value in past if at <= begin][-1:]
    carried = [(at, value) for at, value in before if at + hold > begin]
    holding = carried + inside
    if not holding:
        return None
    times = [*([] if carried else [begin]), *(at for at, _ in holding), demand.now]
    if any(later - earlier > hold for earlier, later in pairwise(times)):
        return None
    covered = demand.now - max(begin, holding[0][0])
    return [value for _, value in holding] if covered >= LEAST_COVER * window - _ROUNDING else None
