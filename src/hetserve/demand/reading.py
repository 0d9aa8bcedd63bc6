"""The one place that decides whether what Prometheus answers is Fresh, Stale, Missing or Invalid demand.

A rate counts at the time of the newest sample behind it, not of the evaluation: a target that died has rates for a
window more, which fall to nothing, and an instant answer for the whole look-back. It counts only if samples lie
throughout its window: of a Prometheus that began empty the first rates are too small.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from statistics import median_low
from typing import Final

from hetserve.base.units import QPS, Seconds
from hetserve.demand import contract
from hetserve.demand.answers import Points, Series
from hetserve.demand.measured_mix import mix_of_buckets, sizes_counted
from hetserve.demand.observed import Demand, Freshness, RateSample, ShareSample, Trouble
from hetserve.demand.queries import LONGEST_STEP, STEPS_IN_WINDOW, MetricsQuerySpec, Part

GAP_STEPS: Final = 2.1
"""Steps without a sample of the source that a window may have: one lost scrape, and jitter."""
_OVER: Final = 1.01
"""Queries in time per query that ended, at most: each rate is extrapolated by itself."""
_LONGER: Final = 1.5
"""Times the usual distance of samples."""
_WHOLE_WINDOWS: Final = 30
"""Windows that are advised are multiples [s]."""
_MOST_NAMED: Final = 3


@dataclass(frozen=True, slots=True)
class PrometheusSamples:
    """What Prometheus answered about one service.

    rate: the series found; one is right. sampled_at: time of the newest sample at each moment; None: the source's own
    time is not known (own queries). in_time: by the bound of the bucket [s]. latency: as rate; None: not asked for.
    buckets: cumulative queries by batch bound; None: not asked for. last: the last moment that was asked for.
    hint: what may explain that nothing was found.
    """

    last: float
    rate: Sequence[Series] = ()
    sampled_at: Points | None = None
    ended: Points = field(default_factory=list)
    in_time: Mapping[float, Points] = field(default_factory=dict)
    latency: Sequence[Series] | None = None
    buckets: Mapping[float, float] | None = None
    hint: str = ""
    notes: tuple[str, ...] = ()


def read_demand(wanted: MetricsQuerySpec, answered: PrometheusSamples, now: float) -> Demand:
    """Demand of a service at `now` [Unix seconds, of Prometheus]. What is wrong is in its words, none is raised."""
    blank = Demand(Freshness.FRESH, now=now, window=wanted.window, step=wanted.step, lower_bound=wanted.own is not None)
    if len(answered.rate) > 1:
        return replace(
            blank,
            freshness=Freshness.INVALID,
            why=_several(_name(wanted), answered.rate),
            trouble=Trouble.QUERY_REFUSED,
        )
    points = answered.rate[0].points if answered.rate else []
    if points and not _is_rate(points[-1][1]):
        why = f"{_name(wanted)}: the rate is {points[-1][1]:g} queries/s; it must be a finite number of at least 0"
        return replace(blank, freshness=Freshness.INVALID, why=why)
    times = _times(wanted, answered, points)
    samples = tuple(RateSample(times[at], QPS(q)) for at, q in points if at in times and _is_rate(q))
    if not samples:
        return replace(blank, freshness=Freshness.MISSING, why=_missing(wanted, answered, points))
    return judged(_with_the_rest(replace(blank, samples=samples), wanted, answered, times), wanted.stale_after)


def judged(demand: Demand, stale_after: Seconds) -> Demand:
    """Demand that is Fresh, or Stale by the age of its newest sample."""
    age = demand.age
    if demand.freshness is not Freshness.FRESH or age is None or age <= stale_after:
        return demand
    why = f"the newest sample is {age:.0f} s old, of at most {stale_after:g} s (staleAfter)"
    return replace(demand, freshness=Freshness.STALE, why=why)


def aged(demand: Demand, by: Seconds, stale_after: Seconds, unreachable: str = "") -> Demand:
    """The same demand looked at later, without a new answer. unreachable: why there is none, in words."""
    looked = judged(replace(demand, now=demand.now + by), stale_after)
    blamed = looked.freshness is Freshness.FRESH or looked.trouble not in {None, Trouble.NOT_ASKED}
    if blamed or not unreachable:
        return looked
    why = "; ".join(filter(None, (looked.why, unreachable)))
    return replace(looked, why=why, trouble=Trouble.UNREACHABLE)


def unknown(trouble: Trouble, why: str) -> Demand:
    """Demand of a service of which nothing is known for this reason; a refused query is Invalid."""
    refused = trouble is Trouble.QUERY_REFUSED
    return Demand(Freshness.INVALID if refused else Freshness.MISSING, why=why, trouble=trouble)


def _times(wanted: MetricsQuerySpec, answered: PrometheusSamples, points: Points) -> dict[float, float]:
    """When the newest sample was taken, by moment, of the moments whose rate counts.

    Samples must lie throughout the window, and of moments with the same newest sample only the first one counts.
    """
    stamps = answered.sampled_at
    if stamps is None:
        stamps = [(at, at) for at, value in points if not math.isnan(value)]
        whole = dict(_whole(wanted, stamps))
        ended = bool(stamps) and stamps[-1][0] < answered.last - GAP_STEPS * wanted.step
        # How old the data were is not known: the query may have seen nothing new for a window.
        return {at: t for at, t in whole.items() if not ended or at <= stamps[-1][0] - wanted.window}
    return dict(_whole(wanted, stamps))


def _whole(wanted: MetricsQuerySpec, stamps: Points) -> Iterator[tuple[float, float]]:
    """Moments at which samples lay throughout the window, with the newest one's time."""
    tolerance, since, newest = GAP_STEPS * wanted.step, math.inf, -math.inf
    seen: list[float] = []
    found: list[tuple[float, float]] = []
    for at, stamp in stamps:
        if not stamp > newest:
            continue
        if stamp - newest > tolerance:
            since = stamp
        newest = stamp
        seen.append(stamp)
        if since <= at - wanted.steps * wanted.step and stamp > at - wanted.window:
            found.append((at, stamp))
    usual = median_low([later - earlier for earlier, later in pairwise(seen)]) if found else 0.0
    for at, stamp in found:
        after = bisect_right(seen, at - wanted.window)
        # A rate whose window begins within a longer pause than usual is too small.
        if seen[after] - seen[after - 1] <= _LONGER * usual:
            yield at, stamp


def _missing(wanted: MetricsQuerySpec, answered: PrometheusSamples, points: Points) -> str:
    distance = _distance(answered.sampled_at or [])
    if distance > GAP_STEPS * wanted.step:
        return _too_far_apart(wanted, distance)
    if points:
        return f"{_name(wanted)}: samples do not lie throughout the window of {wanted.window:g} s yet"
    if wanted.own is not None:
        return f"{_name(wanted)}: no series; an empty answer is not taken for zero"
    return "; ".join(filter(None, (f"no series {_name(wanted)}: that is not taken for zero", answered.hint)))


def _distance(stamps: Points) -> Seconds:
    """Usual seconds between two samples; 0: not known."""
    seen = sorted({stamp for _, stamp in stamps})
    return Seconds(median_low([later - earlier for earlier, later in pairwise(seen)]) if len(seen) > 1 else 0.0)


def _too_far_apart(wanted: MetricsQuerySpec, distance: Seconds) -> str:
    """Rates need a sample in each step but one: where steps can be as long, a longer window is a remedy."""
    needed = math.ceil(STEPS_IN_WINDOW * distance / GAP_STEPS / _WHOLE_WINDOWS) * _WHOLE_WINDOWS
    longer = f"set spec.metrics.window to at least {needed}s, or " if distance <= GAP_STEPS * LONGEST_STEP else ""
    return (
        f"{_name(wanted)}: samples are {distance:.0f} s apart, too far for a window of {wanted.window:g} s: {longer}"
        f"have them scraped every {wanted.step:g} s"
    )


def _with_the_rest(
    demand: Demand, wanted: MetricsQuerySpec, answered: PrometheusSamples, times: Mapping[float, float]
) -> Demand:
    """The demand with attainment and mix, and why they are not known."""
    notes, buckets = list(answered.notes), answered.buckets
    try:
        demand = replace(demand, attained=_attained(wanted, answered, times))
    except ValueError as error:
        notes.append(f"attainment is not known: {error}")
    try:
        if buckets is not None:
            mix, bounds = mix_of_buckets(buckets), sizes_counted(buckets)
            demand = replace(demand, mix=mix, mix_queries=buckets[math.inf], mix_bounds=bounds)
    except ValueError as error:
        notes.append(f"the mix of batch sizes is not known: {error}")
    return replace(demand, notes=tuple(notes))


def _attained(
    wanted: MetricsQuerySpec, answered: PrometheusSamples, times: Mapping[float, float]
) -> tuple[ShareSample, ...]:
    """Shares at the moments that count. While no query ends there is none. Raises ValueError in words."""
    if wanted.own is not None:
        return tuple(_by_latency(wanted, answered.latency or (), times))
    in_time = dict(answered.in_time.get(wanted.slo, ()))
    ended = [(at, value) for at, value in answered.ended if at in times and 0 < value < math.inf]
    if ended and not in_time:
        raise ValueError(
            f"{contract.DURATION} has no bucket le={contract.bound_label(wanted.slo)}, which is slo.latency"
        )
    return tuple(
        ShareSample(times[at], _share(in_time[at], all_), all_ * wanted.window) for at, all_ in ended if at in in_time
    )


def _share(in_time: float, ended: float) -> float:
    share = in_time / ended
    if not 0 <= share <= _OVER:
        raise ValueError(f"{in_time:g} queries/s are in time of {ended:g} that end")
    return min(1.0, share)


def _by_latency(
    wanted: MetricsQuerySpec, found: Sequence[Series], times: Mapping[float, float]
) -> Iterator[ShareSample]:
    """Whether the latency at the percentile is met; NaN: nothing ended. An infinite one is above every bucket."""
    if len(found) > 1:
        raise ValueError(_several(f"spec.metrics.queries.{Part.LATENCY}", found))
    for at, seconds in found[0].points if found else ():
        if seconds < 0:
            raise ValueError(f"spec.metrics.queries.latency is {seconds:g} s; it must be at least 0")
        if at in times and not math.isnan(seconds):
            yield ShareSample(times[at], wanted.percentile if seconds <= wanted.slo else 0.0)


def _several(name: str, found: Sequence[Series]) -> str:
    named = ", ".join(map(str, found[:_MOST_NAMED])) + (", ..." if len(found) > _MOST_NAMED else "")
    return f"{name}: {len(found)} series ({named}), and one is wanted; aggregate them, for example with sum()"


def _name(wanted: MetricsQuerySpec) -> str:
    """What the rate is read from, in words."""
    if wanted.own is not None:
        return f"spec.metrics.queries.{Part.RATE}"
    return f'{contract.REQUESTS}{{{contract.NAMESPACE}="{wanted.namespace}", {contract.SERVICE}="{wanted.name}"}}'


def _is_rate(value: float) -> bool:
    return math.isfinite(value) and value >= 0
