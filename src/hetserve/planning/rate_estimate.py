"""Estimates the rate that instances carry together, cheaply enough to compare hundreds of counts.

R = min over thresholds s of  sum_t n_t q[t,s] / share of the queries above s

q[t,s]: queries/s of one instance of type t that serves only queries above s, up to the largest that it serves within
the SLO on average. Thresholds: 0, and each type's largest query. So small instances alone carry nothing where some
queries are too large for them. The flow program is exact where this is a bound, but takes a solver and a millisecond.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Final

from hetserve.base.units import Seconds
from hetserve.demand import BatchMix
from hetserve.planning.rates import largest_prefix
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
    limits = {name: largest_prefix(profile, mix, slo) for name, profile in profiles.items()}
    served = {name: limit for name, limit in limits.items() if limit is not None}
    top = max(served.values(), default=0)
    rows = [_row(profiles, served, mix, least) for least in sorted({0, *served.values()} - {top})] if served else []
    unknown = {name: price for name, price in prices.items() if name not in profiles}
    for row in rows:
        paid = [rate / prices[name] for name, rate in row.items() if prices.get(name)]
        best = max(paid) if paid else max(row.values()) / max([1, *unknown.values()])
        row.update({name: price * best for name, price in unknown.items()})
    return _Estimate(tuple(rows) or (dict(prices),))


def _row(
    profiles: Mapping[str, LatencyProfile], served: Mapping[str, int], mix: BatchMix, above: int
) -> dict[str, float]:
    """Rate of each type over its queries above a batch, per share of all queries above it."""
    pairs = [(b, share) for b, share in zip(mix.batches, mix.shares, strict=True) if b > above]
    wanted, row = math.fsum(share for _, share in pairs), {}
    for name, limit in served.items():
        mine = [(share, profiles[name].mean(b) or 0.0) for b, share in pairs if b <= limit]
        busy = math.fsum(share * mean for share, mean in mine)
        row[name] = math.fsum(share for share, _ in mine) / busy / wanted if busy > 0 else 0.0
    return row


class _Estimate:
    def __init__(self, rows: tuple[Mapping[str, float], ...]) -> None:
        self._rows = rows

    def __call__(self, counts: Mapping[str, int]) -> float:
        return min(math.fsum(n * row.get(name, 0.0) for name, n in counts.items()) for row in self._rows)
