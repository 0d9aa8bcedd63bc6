"""Rates from latency profiles and the mix of batch sizes."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass

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
