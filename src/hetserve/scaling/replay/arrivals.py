"""Queries of a load trace, their batch sizes, and what Prometheus would say of them."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from hetserve.base.units import QPS, Seconds
from hetserve.demand.measured_mix import LEAST_QUERIES
from hetserve.demand.mix import BatchMix
from hetserve.demand.observed import Demand, Freshness, RateSample
from hetserve.demand.queries import MIX_WINDOW
from hetserve.demand.reading import judged
from hetserve.demand.trace import LoadTrace
from hetserve.simulation.workload import draw_workload


@dataclass(frozen=True, eq=False)
class Sizes:
    """Of all queries of a trace. batches: the different ones [items], rising. of: [query], index into them.

    times: [query], seconds of the trace, rising.
    """

    batches: tuple[int, ...]
    of: NDArray[np.int64] = field(repr=False)
    times: NDArray[np.float64] = field(repr=False)

    def measured(self, now: float) -> tuple[BatchMix | None, float]:
        """The mix of the queries of ten minutes before a time of the trace [s], and their number; None: too few."""
        first, last = np.searchsorted(self.times, [now - MIX_WINDOW, now + SLACK])
        if last - first < LEAST_QUERIES:
            return None, float(last - first)
        counts = np.bincount(self.of[first:last], minlength=len(self.batches))
        told = ((batch, float(n)) for batch, n in zip(self.batches, counts, strict=True) if n)
        return BatchMix.of(told), float(last - first)


def drawn_sizes(times: NDArray[np.float64], mixes: Sequence[tuple[float, BatchMix]], seed: int) -> Sizes:
    """Sizes of queries at `times` [s]. mixes: each with the time from which it holds [s], rising; the first always."""
    batches = tuple(sorted({batch for _, mix in mixes for batch in mix.batches}))
    found = np.zeros(len(times), np.int64)
    for i, (begin, mix) in enumerate(mixes):
        first = int(np.searchsorted(times, begin)) if i else 0
        if first < len(times):
            place = np.searchsorted(np.array(batches), np.array(mix.batches))
            found[first:] = place[draw_workload(mix, len(times), seed).sizes[first:]]
    return Sizes(batches, found, times)


Floats = NDArray[np.float64]

STEP: Final = Seconds(15.0)
"""Between samples, and between decisions."""
MOST_QUERIES: Final = 1e8
"""Of a trace: each is played, and some arrays have a number for each."""
MOST_SECONDS: Final = 400 * 86_400.0
"""Of a trace, on which a decision is made at each step."""
SLACK: Final = 1e-6
"""Seconds by which sums of steps may miss a time."""


@dataclass(frozen=True, slots=True)
class Gap:
    """Time in which the trace has no rate. words: what stands there; empty: nothing."""

    begin: float
    end: float
    words: str


@dataclass(frozen=True, eq=False)
class Arrived:
    """Arrivals of a whole trace. times: [query], seconds of the trace, rising. begin, end: of the trace [s].

    gaps: in which nothing is measured, rising; queries arrive there as before. sizes: of the queries, where they are
    measured; None: all are of the declared mix.
    """

    times: Floats
    begin: float
    end: float
    gaps: tuple[Gap, ...] = ()
    window: Seconds = Seconds(60.0)
    step: Seconds = STEP
    stale_after: Seconds = Seconds(120.0)
    kept: Seconds = field(default=Seconds(1200.0))
    sizes: Sizes | None = None

    @cached_property
    def samples(self) -> tuple[RateSample, ...]:
        """Rates over the window at each step of the trace at which one is known."""
        steps = int((self.end - self.begin) / self.step + SLACK)
        at = self.begin + self.step * np.arange(steps + 1)
        until = np.searchsorted(self.times, at, side="right")
        since = np.searchsorted(self.times, at - self.window, side="right")
        rates = (until - since) / self.window
        known = [self.knows(t) for t in at.tolist()]
        return tuple(RateSample(float(t), QPS(float(r))) for t, r in zip(at[known], rates[known], strict=True))

    def knows(self, at: float) -> bool:
        """Whether anything is measured over the window before a time of the trace [s]."""
        before = bisect_right(self.gaps, at, key=lambda gap: gap.begin)
        # Gaps rise and do not overlap: the last that has begun ends last.
        measured = not before or at - self.window >= self.gaps[before - 1].end
        return measured and at >= self.begin + self.window - SLACK

    @cached_property
    def _at(self) -> Floats:
        return np.array([sample.at for sample in self.samples])

    def demand(self, now: float) -> Demand:
        """Demand as seen at a time of the trace [s]."""
        blank = Demand(Freshness.FRESH, now=now, window=self.window, step=self.step)
        bad = next((gap for gap in self.gaps if gap.begin <= now < gap.end and gap.words), None)
        if bad is not None:
            why = f"the rate is {bad.words} queries/s; it must be a finite number of at least 0"
            return replace(blank, freshness=Freshness.INVALID, why=why)
        last = int(np.searchsorted(self._at, now + SLACK, side="right"))
        first = int(np.searchsorted(self._at, now - self.kept - SLACK))
        if first >= last:
            return replace(blank, freshness=Freshness.MISSING, why=f"nothing was measured for {self.kept:g} s")
        found = judged(replace(blank, samples=self.samples[first:last]), self.stale_after)
        if self.sizes is None:
            return found
        mix, queries = self.sizes.measured(now)
        return replace(found, mix=mix, mix_queries=queries)

    def rate(self, begin: float, end: float) -> float:
        """Queries/s that arrived from begin to end [s]."""
        first, last = np.searchsorted(self.times, [begin, end])
        return float(last - first) / (end - begin)


def arrivals_of(trace: LoadTrace, seed: int, *, scale: float = 1.0) -> Arrived:
    """A Poisson process of the trace's rates. Where the trace has no rate, the last one before goes on.

    The last rate lasts as long as the one before it. scale: factor on all rates. Raises ValueError for a trace that
    never has a rate, or is too long to be played.
    """
    rates = np.array(list(_filled(trace))) * scale
    last = trace.times[-1] + (trace.times[-1] - trace.times[-2] if len(trace.times) > 1 else 60.0)
    edges = np.array([*trace.times, last], dtype=np.float64)
    expected = np.concatenate(([0.0], np.cumsum(rates * np.diff(edges))))
    _refuse_endless(float(edges[-1] - edges[0]), float(expected[-1]))
    source = np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed)))
    drawn = int(expected[-1] + 6 * math.sqrt(expected[-1]) + 10)
    at = np.cumsum(source.standard_exponential(drawn))
    at = at[at < expected[-1]]
    # Where nothing arrives, the expected number stands still: np.interp needs it to rise.
    rises = np.concatenate(([True], np.diff(expected) > 0))
    steps = np.flatnonzero(rises[1:])
    place = np.searchsorted(expected[steps + 1], at, side="right")
    segment = steps[np.minimum(place, len(steps) - 1)] if len(steps) else np.zeros(0, np.int64)
    times = edges[segment] + (at - expected[segment]) / rates[segment] if len(at) else at
    return Arrived(times, float(edges[0]), float(edges[-1]), tuple(_gaps(trace, last)))


def _refuse_endless(seconds: float, queries: float) -> None:
    if not seconds <= MOST_SECONDS:
        raise ValueError(
            f"time_s: the trace lasts {seconds:.6g} s, at most {MOST_SECONDS:.10g} can be followed: give a part of it"
        )
    if not queries <= MOST_QUERIES:
        raise ValueError(
            f"qps: the trace has {queries:.6g} queries, at most {MOST_QUERIES:.10g} can be played: give a shorter part "
            f"of it, or lower rates"
        )


def _filled(trace: LoadTrace) -> Iterator[float]:
    """Rates of the trace; where there is none, the last good one, at its beginning the first good one."""
    good = [rate for rate in trace.rates if _is_rate(rate)]
    if not good:
        raise ValueError("the trace has no rate: every cell of qps is empty, nan, infinite or negative")
    now = float(good[0] or 0.0)
    for rate in trace.rates:
        now = float(rate) if rate is not None and _is_rate(rate) else now
        yield now


def _is_rate(rate: float | None) -> bool:
    return rate is not None and math.isfinite(rate) and rate >= 0


def _gaps(trace: LoadTrace, last: float) -> Iterator[Gap]:
    for (begin, end), rate in zip(pairwise((*trace.times, last)), trace.rates, strict=True):
        if not _is_rate(rate):
            yield Gap(begin, end, "" if rate is None else f"{rate:g}")
