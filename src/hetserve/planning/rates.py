"""Rates from latency profiles and the mix of batch sizes."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from hetserve.base.units import QPS, Seconds
from hetserve.demand import BatchMix
from hetserve.planning.problem import TypeOption
from hetserve.planning.slo import within
from hetserve.profiles import LatencyProfile


def throughput(profile: LatencyProfile, mix: BatchMix, some: Collection[int] | None = None) -> QPS | None:
    """Queries/s of one instance that serves one query at a time: 1 / E[mean latency].

    some: batches that count; None: the whole mix. Batches that cannot be served do not count; None if none can.
    """
    served = [
        (share, mean)
        for batch, share in zip(mix.batches, mix.shares, strict=True)
        if (some is None or batch in some) and (mean := profile.mean(batch)) is not None
    ]
    busy = math.fsum(share * mean for share, mean in served)
    if not served or busy <= 0:
        return None
    return QPS(math.fsum(share for share, _ in served) / busy)


def time_share(profile: LatencyProfile, mix: BatchMix, some: Collection[int]) -> float:
    """Share t of an instance's time for some batches; exactly 1.0 for the whole mix."""
    times = [(b, share * (profile.mean(b) or 0.0)) for b, share in zip(mix.batches, mix.shares, strict=True)]
    if all(b in some for b in mix.batches):
        return 1.0
    return math.fsum(time for b, time in times if b in some) / math.fsum(time for _, time in times)


def served_within(profile: LatencyProfile, mix: BatchMix, slo: Seconds) -> tuple[int, ...]:
    """Batches whose mean latency keeps the SLO: larger ones may, where smaller ones do not."""
    return tuple(batch for batch in mix.batches if within(profile.mean(batch), slo))


@dataclass(frozen=True, slots=True)
class Auxiliary:
    """Serves batches within the SLO, up to `limit`.

    common: what auxiliaries up to this limit serve together, if it has the largest of them: a share f of queries, t of
    base time.
    """

    option: TypeOption
    served: tuple[int, ...]
    common: tuple[int, ...]
    f: float
    t: float

    @property
    def limit(self) -> int:
        return self.served[-1]


@dataclass(frozen=True, slots=True)
class Rates:
    """Input of Kairos's bound.

    q_base: Q_b, queries/s of one base instance over the whole mix. auxiliaries: by name. q_aux[i][j]: rate of auxiliary
    j over what is common to those up to the limit of i, without what it is too slow for below its own.
    """

    base: TypeOption
    q_base: QPS
    auxiliaries: tuple[Auxiliary, ...]
    q_aux: tuple[tuple[QPS, ...], ...]


def derive_rates(base: TypeOption, others: tuple[TypeOption, ...], mix: BatchMix, slo: Seconds) -> Rates:
    """Rates of a base type and of the others that serve at least the smallest batch within the SLO.

    As published, the *mean* latency decides. A type that serves nothing within the SLO is no auxiliary: the common s
    would credit it with queries.
    """
    q_base = throughput(base.profile, mix)
    if q_base is None:
        raise ValueError(f"base type {base.name} has no positive mean latency over the mix")
    named = sorted(others, key=lambda o: o.name)
    served = [served_within(option.profile, mix, slo) for option in named]
    auxiliaries = tuple(
        Auxiliary(option, own, common, mix.share_of(common), time_share(base.profile, mix, common))
        for option, own in zip(named, served, strict=True)
        if own and (common := _common(served, own[-1]))
    )
    q_aux = tuple(
        tuple(throughput(aux.option.profile, mix, _at(aux, leader)) or QPS(0.0) for aux in auxiliaries)
        for leader in auxiliaries
    )
    return Rates(base, q_base, auxiliaries, q_aux)


def _common(served: Iterable[tuple[int, ...]], limit: int) -> tuple[int, ...]:
    """Batches that types serve whose own limit is no larger."""
    return tuple(sorted({batch for own in served if own and own[-1] <= limit for batch in own}))


def _at(aux: Auxiliary, leader: Auxiliary) -> frozenset[int]:
    return frozenset(batch for batch in leader.common if batch > aux.limit or batch in aux.served)


RateEstimate = Callable[[Mapping[str, int]], float]
"""From instances by type to queries/s, or to what grows like it; monotone in each count."""
NOTICEABLE: Final = 1e-9
"""Relative difference below which two rates are equal."""


def rate_estimate(
    profiles: Mapping[str, LatencyProfile], prices: Mapping[str, int], mix: BatchMix, slo: Seconds
) -> RateEstimate:
    """Estimate for instances of the types in `prices` (micro-dollars/h of one), cheap enough for hundreds of counts.

    R = min over sets S of batches of  sum_t n_t q[t,S] / share of the queries in S

    q[t,S]: queries/s of one instance of type t that serves only those queries of S that it serves within the SLO on
    average. Sets: all, and for each batch those that no other type serves than those which serve it. So small instances
    alone carry nothing where some queries are too large for them, or too slow on them. The flow program is exact where
    this is a bound, but takes a solver and a millisecond.

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
