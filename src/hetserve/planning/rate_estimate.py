"""Estimates the rate that instances carry together, cheaply enough to compare hundreds of counts.

R = min over sets S of batches of  sum_t n_t q[t,S] / share of the queries in S

q[t,S]: queries/s of one instance of type t that serves only those queries of S that it serves within the SLO on
average. Sets: all, and for each batch those that no other type serves than those which serve it. So small instances
alone carry nothing where some queries are too large for them, or too slow on them. The flow program is exact where this
is a bound, but takes a solver and a millisecond.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Final

from hetserve.base.units import Seconds
from hetserve.demand import BatchMix
from hetserve.planning.rates import served_within
from hetserve.profiles import LatencyProfile

RateEstimate = Callable[[Mapping[str, int]], float]
"""From instances by type to queries/s, or to what grows like it; monotone in each count."""
NOTICEABLE: Final = 1e-9
"""Relative difference below which two rates are equal."""


def rate_estimate(
    profiles: Mapping[str, LatencyProfile], prices: Mapping[str, int], mix: BatchMix, slo: Seconds
) -> RateEstimate:
    """Estimate for instances of the types in `prices` (micro-dollars/h of one).

    profiles: as the service's queries meet them. A type without one carries as much per dollar as the best that has
    one: it is not known, and not nothing. Where all that have one are free, the dearest without carries as much as the
    best of them.
    """
    served = {name: frozenset(served_within(profile, mix, slo)) for name, profile in profiles.items()}
    rows = [row for some in _sets(served, mix) if (row := _row(profiles, served, mix, some))]
    unknown = {name: price for name, price in prices.items() if name not in profiles}
    for row in rows:
        paid = [rate / prices[name] for name, rate in row.items() if prices.get(name)]
        best = max(paid) if paid else max(row.values()) / max([1, *unknown.values()])
        row.update({name: price * best for name, price in unknown.items()})
    known: list[Mapping[str, float]] = [*rows] or [dict(prices)]

    def estimate(counts: Mapping[str, int]) -> float:
        return min(math.fsum(n * row.get(name, 0.0) for name, n in counts.items()) for row in known)

    return estimate


def _sets(served: Mapping[str, frozenset[int]], mix: BatchMix) -> list[frozenset[int]]:
    """All batches, and for each that some type serves those of which no other type serves any; largest sets first."""
    by = {batch: frozenset(name for name, own in served.items() if batch in own) for batch in mix.batches}
    found = {frozenset(b for b, names in by.items() if names <= able) for able in {*by.values()} if able}
    every = frozenset(mix.batches)
    return sorted({every, *found}, key=lambda some: (-len(some), sorted(some))) if found else []


def _row(
    profiles: Mapping[str, LatencyProfile],
    served: Mapping[str, frozenset[int]],
    mix: BatchMix,
    some: frozenset[int],
) -> dict[str, float]:
    """Rate of each type over its queries of some batches, per share of all queries of them; none that serves none."""
    pairs = [(b, share) for b, share in zip(mix.batches, mix.shares, strict=True) if b in some]
    wanted, row = math.fsum(share for _, share in pairs), {}
    for name, own in served.items():
        mine = [(share, profiles[name].mean(b) or 0.0) for b, share in pairs if b in own]
        busy = math.fsum(share * mean for share, mean in mine)
        if own:
            row[name] = math.fsum(share for share, _ in mine) / busy / wanted if busy > 0 else 0.0
    return row
