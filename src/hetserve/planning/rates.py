"""From latency profiles and the mix of batch sizes to the rates that the planners compare."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from hetserve.demand import BatchMix
from hetserve.planning.problem import TypeOption
from hetserve.profiles import LatencyProfile
from hetserve.units import QPS, Seconds

ROUNDING: Final = 1e-9
"""Relative; a latency this little above the SLO is equal to it but for floating point."""


def within(latency: Seconds | None, slo: Seconds) -> bool:
    """Whether a latency keeps the SLO; what cannot be served (None) does not."""
    return latency is not None and latency <= slo * (1 + ROUNDING)


def throughput(profile: LatencyProfile, mix: BatchMix, up_to: int | None = None) -> QPS | None:
    """Queries/s of one instance that serves one query at a time: 1 / E[mean latency].

    Over the queries of at most `up_to` items, the whole mix if None. Of those it counts what the profile can
    serve at all: beyond max_batch there is no latency, and an invented one would be worse than none.
    None where nothing can be served.
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
    """Share t of an instance's time that queries of at most `up_to` items take; exactly 1.0 for the whole mix."""
    if up_to >= mix.largest:
        return 1.0
    times = [(b, share * (profile.mean(b) or 0.0)) for b, share in zip(mix.batches, mix.shares, strict=True)]
    return math.fsum(time for b, time in times if b <= up_to) / math.fsum(time for _, time in times)


def largest_prefix(profile: LatencyProfile, mix: BatchMix, slo: Seconds) -> int | None:
    """Largest batch s of the mix up to which every batch keeps the SLO by the mean latency; None: not even the first.

    A prefix, since Kairos splits the mix at s; on a profile that is not monotone, batches within the SLO above
    the first that misses it do not count.
    """
    covered: int | None = None
    for batch in mix.batches:
        if not within(profile.mean(batch), slo):
            break
        covered = batch
    return covered


def worst_latency(
    profile: LatencyProfile, mix: BatchMix, percentile: float | None = None
) -> tuple[int, Seconds | None]:
    """Batch of the mix that takes longest, and its latency; (batch, None) for the first that cannot be served.

    percentile: of the latency to judge; None: the mean.
    """
    worst = (mix.batches[0], Seconds(-math.inf))
    for batch in mix.batches:
        latency = profile.mean(batch) if percentile is None else profile.quantile(batch, percentile)
        if latency is None:
            return batch, None
        if latency > worst[1]:
            worst = (batch, latency)
    return worst


@dataclass(frozen=True, slots=True)
class Auxiliary:
    """An auxiliary type: it serves queries of at most `limit` items, a share f of them, a share t of base time."""

    option: TypeOption
    limit: int
    f: float
    t: float


@dataclass(frozen=True, slots=True)
class Rates:
    """What the bound needs to know of every configuration of these types.

    q_base: Q_b, queries/s of one base instance over the whole mix. auxiliaries: by name. q_aux[i][j]: rate of
    one instance of auxiliary j when the common s is the limit of auxiliary i.
    """

    base: TypeOption
    q_base: QPS
    auxiliaries: tuple[Auxiliary, ...]
    q_aux: tuple[tuple[QPS, ...], ...]


def derive_rates(base: TypeOption, others: tuple[TypeOption, ...], mix: BatchMix, slo: Seconds) -> Rates:
    """Rates of a base type and of those of the others that serve at least the smallest batch within the SLO.

    As published, Kairos judges the SLO by the *mean* latency (its queries hardly vary); a type with wide spread
    is flattered. A type that serves nothing within the SLO is not an auxiliary: credited at the common s, it
    would enter plans in which it can serve no query.
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
