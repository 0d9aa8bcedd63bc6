"""What Prometheus computes from scrapes, for tests of what is read from it: rate(), timestamp(), range queries.

Rates are extrapolated as by Prometheus's extrapolatedRate (promql/functions.go), resets of counters included.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from operator import itemgetter

from hetserve.demand.answers import Points

Scrapes = Sequence[tuple[float, float]]
"""Time [s] and value of a counter, oldest first."""
LOOK_BACK = 300.0
_TIME = itemgetter(0)


def counter(load: Callable[[float], float], times: Iterable[float], began: float = 0.0) -> list[tuple[float, float]]:
    """Scrapes of a counter that has grown by `load` [1/s] since `began`, in steps of a second."""
    scrapes, total, at = [], 0.0, began
    for time in times:
        while at + 1 <= time:
            total += load(at)
            at += 1
        scrapes.append((time, total))
    return scrapes


def rate(scrapes: Scrapes, at: float, window: float) -> float | None:
    """rate(counter[window]) at a moment; None: no value."""
    inside = _within(scrapes, at, window)
    if len(inside) < 2:
        return None
    grown = sum(after if after < before else after - before for (_, before), (_, after) in pairwise(inside))
    (first, value), last = inside[0], inside[-1][0]
    sampled = last - first
    between = sampled / (len(inside) - 1)
    before, after = first - (at - window), at - last
    if before >= between * 1.1:
        before = between / 2
    if grown > 0 and value >= 0:
        before = min(before, sampled * value / grown)
    if after >= between * 1.1:
        after = between / 2
    return grown * (sampled + before + after) / sampled / window


def stamp(scrapes: Scrapes, at: float, look_back: float = LOOK_BACK) -> float | None:
    """timestamp(counter) at a moment; None: no value."""
    inside = _within(scrapes, at, look_back)
    return inside[-1][0] if inside else None


def _within(scrapes: Scrapes, at: float, window: float) -> Scrapes:
    """Scrapes of the window that ends at a moment, which is within it, as its begin is not."""
    return scrapes[bisect_right(scrapes, at - window, key=_TIME) : bisect_right(scrapes, at, key=_TIME)]


def over(first: float, last: float, step: float, value: Callable[[float], float | None]) -> Points:
    """Points of a range query."""
    moments = [first + step * k for k in range(round((last - first) / step) + 1)]
    return [(at, found) for at in moments if (found := value(at)) is not None]
