"""Rates from latency profiles and the mix of batch sizes."""

from __future__ import annotations

import math
from dataclasses import dataclass

from hetserve.base.units import QPS, Seconds
from hetserve.demand import BatchMix
from hetserve.planning.problem import TypeOption
from hetserve.planning.slo import within
from hetserve.profiles import LatencyProfile


def throughput(profile: LatencyProfile, mix: BatchMix, up_to: int | None = None) -> QPS | None:
    """Queries/s of one instance that serves one query at a time: 1 / E[mean latency].

    up_to: largest batch that counts; None: the whole mix. Batches that cannot be served do not count; None if none can.
    """
    served = [
        (share, mean)
        for batch, share in zip(mix.batches, mix.shares, strict=True)
        if (up_to is None or batch <= up_to) and (mean := profile.mean(batch)) is not None
    ]
    busy = math.fsum(share * mean for share, mean in served)
    if not served or busy <= 0:
        return None
    return QPS(math.fsum(share for share, _ in served) / busy)


def time_share(profile: LatencyProfile, mix: BatchMix, up_to: int) -> float:
    """Share t of an instance's time for queries of at most `up_to` items; exactly 1.0 for the whole mix."""
    if up_to >= mix.largest:
        return 1.0
    times = [(b, share * (profile.mean(b) or 0.0)) for b, share in zip(mix.batches, mix.shares, strict=True)]
    return math.fsum(time for b, time in times if b <= up_to) / math.fsum(time for _, time in times)


def largest_prefix(profile: LatencyProfile, mix: BatchMix, slo: Seconds) -> int | None:
    """Largest batch s up to which every mean latency keeps the SLO; None: none.

    Kairos splits the mix at s.
    """
    covered: int | None = None
    for batch in mix.batches:
        if not within(profile.mean(batch), slo):
            break
        covered = batch
    return covered


@dataclass(frozen=True, slots=True)
class Auxiliary:
    """Serves queries of at most `limit` items: a share f of queries, t of base time."""

    option: TypeOption
    limit: int
    f: float
    t: float


@dataclass(frozen=True, slots=True)
class Rates:
    """Input of Kairos's bound.

    q_base: Q_b, queries/s of one base instance over the whole mix. auxiliaries: by name. q_aux[i][j]: rate of auxiliary
    j if the common s is the limit of i.
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
    auxiliaries = tuple(
        Auxiliary(option, limit, mix.share_up_to(limit), time_share(base.profile, mix, limit))
        for option in sorted(others, key=lambda o: o.name)
        if (limit := largest_prefix(option.profile, mix, slo)) is not None
    )
    q_aux = tuple(
        tuple(throughput(aux.option.profile, mix, leader.limit) or QPS(0.0) for aux in auxiliaries)
        for leader in auxiliaries
    )
    return Rates(base, q_base, auxiliaries, q_aux)
