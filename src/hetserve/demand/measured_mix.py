"""The mix of batch sizes that a histogram's buckets tell, and whether it has moved from the planned one."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache
from itertools import accumulate
from typing import Final

from hetserve.demand.mix import BatchMix
from hetserve.demand.observed import Demand, Freshness

LEAST_QUERIES: Final = 100.0
"""Below, shares are too much of a chance."""
MOST_SIZES: Final = 1000
"""Batch sizes of a mix that a plan's record can hold."""
_FALL: Final = 0.01
"""Share of all queries by which cumulative counts may fall: Prometheus extrapolates each bucket by itself."""
_NEGLIGIBLE: Final = 1e-9


def mix_of_buckets(buckets: Mapping[float, float]) -> BatchMix:
    """Mix from cumulative counts of queries by upper bound [items], +Inf included.

    A query counts with the upper bound of its bucket, the most that it can be, so that no plan is too small for it.
    Raises ValueError, in words, where the counts tell no mix: no bucket of all queries, too few queries, queries larger
    than every bound, counts that are no numbers or fall, more than `MOST_SIZES` sizes.
    """
    total = buckets.get(math.inf)
    if total is None:
        raise ValueError("no bucket le=+Inf")
    wrong = next((bound for bound, count in buckets.items() if not (math.isfinite(count) and count >= 0)), None)
    if wrong is not None:
        raise ValueError(f"bucket le={wrong:g} counts {buckets[wrong]:g} queries")
    if total < LEAST_QUERIES:
        raise ValueError(f"{total:.0f} queries are too few for a mix, which takes {LEAST_QUERIES:.0f}")
    weights: list[tuple[int, float]] = []
    below = 0.0
    for bound in sorted(buckets):
        within = buckets[bound] - below
        if within < -_FALL * total:
            raise ValueError(f"bucket le={bound:g} counts fewer queries than the one before it")
        if within > _NEGLIGIBLE * total:
            weights.append((_items(bound, within / total), within))
        below = max(below, buckets[bound])
    if len(weights) > MOST_SIZES:
        raise ValueError(f"{len(weights)} sizes, of at most {MOST_SIZES} that a plan's record holds; use fewer buckets")
    return BatchMix.of(weights)


def sizes_counted(buckets: Mapping[float, float]) -> tuple[int, ...]:
    """Sizes [items] up to which the buckets of a mix count queries, rising."""
    return tuple(sorted({math.floor(bound) for bound in buckets if 1 <= bound < math.inf}))


def _items(bound: float, share: float) -> int:
    if math.isinf(bound):
        raise ValueError(f"{share:.2%} of the queries are larger than every bound of the buckets")
    items = math.floor(bound)
    if items < 1:
        raise ValueError(f"{share:.2%} of the queries have fewer items than one (le={bound:g})")
    return items


MOVED: Final = 0.05
"""Distance between mixes below which they count as one."""
_UNLIKELY: Final = 1e-6
"""Chance that queries of one mix tell another by more than is allowed for."""


@lru_cache(maxsize=4096)
def distance(planned: BatchMix, measured: BatchMix, bounds: tuple[int, ...] = ()) -> float:
    """Largest difference of the shares of queries with at most so many items.

    bounds: sizes up to which queries were counted: what lies between two is not known. Empty: all sizes are.
    """
    one, other = _Shares(planned), _Shares(measured)
    sizes = bounds or sorted({*planned.batches, *measured.batches})
    return max(abs(one.up_to(size) - other.up_to(size)) for size in sizes)


def moved_by(planned: BatchMix, demand: Demand) -> float:
    """Distance of the measured mix from the planned; 0 where none is known."""
    return 0.0 if demand.mix is None else distance(planned, demand.mix, demand.mix_bounds)


def least_move(demand: Demand) -> float:
    """Distance from which on the measured mix is another one: `MOVED`, beyond what chance makes of so few queries.

    By the bound of Dvoretzky, Kiefer and Wolfowitz: of n queries, P(distance > e) <= 2 exp(-2 n e^2) (Massart, "The
    tight constant in the Dvoretzky-Kiefer-Wolfowitz inequality", Annals of Probability 18 (1990)).
    """
    queries = demand.mix_queries
    if queries is None:
        return MOVED
    return MOVED + math.sqrt(math.log(2 / _UNLIKELY) / (2 * queries)) if queries > 0 else math.inf


def moved_mix(planned: BatchMix, demand: Demand) -> BatchMix | None:
    """The measured mix, if it is surely another one than the planned; None: it is not, or is not known."""
    if demand.freshness is not Freshness.FRESH or demand.mix is None:
        return None
    return demand.mix if moved_by(planned, demand) >= least_move(demand) else None


class _Shares:
    """Shares of queries up to sizes that are asked for in rising order; exactly 1.0 from the largest on."""

    def __init__(self, mix: BatchMix) -> None:
        self._batches = mix.batches
        self._sums = [0.0, *list(accumulate(mix.shares))[:-1], 1.0]
        self._passed = 0

    def up_to(self, size: int) -> float:
        while self._passed < len(self._batches) and self._batches[self._passed] <= size:
            self._passed += 1
        return self._sums[self._passed]
