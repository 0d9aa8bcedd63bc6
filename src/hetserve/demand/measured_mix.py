"""The mix of batch sizes that a histogram's buckets tell."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from hetserve.demand.mix import BatchMix

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
