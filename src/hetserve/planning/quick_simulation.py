"""A simulation of many configurations at many rates at once, in numpy (decision 0022).

A query joins an instance on arrival: of those that finish within the SLO the one with the least wait, the fastest type
last; else the one that finishes first. A lane is one configuration at one rate.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from hetserve.dispatch.latency import fastest_first
from hetserve.planning.plan import Counts, RankedConfiguration
from hetserve.planning.problem import Problem
from hetserve.profiles import DenseLatency, dense
from hetserve.simulation.stability import PARTS, fewest_queries, parts_of, rises
from hetserve.simulation.system import FEASIBILITY_PERCENTILE
from hetserve.simulation.workload import Workload, draw_workload

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

FEWEST_QUERIES: Final = 3000
MOST_QUERIES: Final = 6000
_PER_INSTANCE: Final = 100
SEED: Final = 20_231
STEP: Final = 500
"""Fixed cost of a step, in instances."""

COARSE: Final = 0.05
FINE: Final = 0.005
# At the bound itself any randomness makes the backlog grow.
_HIGHEST: Final = 1 - FINE
_FIRST_LEVELS: Final = np.minimum(np.arange(20, 10, -1) * COARSE, _HIGHEST)
_LOW_LEVELS: Final = np.arange(10, 0, -1) * COARSE
_RESERVED: Final = 1e6
_LATE: Final = 1e9


@dataclass(frozen=True, slots=True, eq=False)
class _Draws:
    """Queries that all lanes share.

    at: [query], arrivals at one query/s. safe, actual: [query, type + 1], service times in seconds; `safe` is the
    deciding quantile. The last column, infinite, is for absent instances.
    """

    at: Floats
    safe: Floats
    actual: Floats


def quick_queries(entries: Sequence[RankedConfiguration], slo: float) -> int:
    largest = max(sum(count for _, count in entry.counts) for entry in entries)
    long_enough = fewest_queries(slo, max(entry.qps for entry in entries))
    return max(min(max(FEWEST_QUERIES, _PER_INSTANCE * largest), MOST_QUERIES), long_enough)


def quick_throughputs(
    problem: Problem,
    entries: Sequence[RankedConfiguration],
    queries: int,
    checkpoint: Callable[[], None] = lambda: None,
    seed: int = SEED,
) -> tuple[float, ...]:
    """Highest rate [queries/s] of each configuration at which few enough queries are late and delays do not rise.

    Searched downward from its bound, by 5 % and then 0.5 % of it; 0 if even 5 % is too much. All configurations get the
    same draws. checkpoint: called between passes; may raise to stop.
    """
    served = dense([option.profile for option in problem.types], problem.mix.batches)
    race = _Race(
        _draw(served, draw_workload(problem.mix, queries, seed)),
        _instances(problem, served, [entry.counts for entry in entries]),
        np.array([entry.qps for entry in entries]),
        problem.slo.latency,
        int(queries * (1 - problem.slo.percentile / 100) + 1e-9),
    )
    everybody = np.arange(len(entries))
    best = race.highest(everybody, np.tile(_FIRST_LEVELS, (len(entries), 1)))
    checkpoint()
    slow = np.flatnonzero(best == 0)
    best[slow] = race.highest(slow, np.tile(_LOW_LEVELS, (len(slow), 1)))
    checkpoint()
    between = np.flatnonzero((best > 0) & (best < _HIGHEST))
    finer = best[between, None] + np.arange(round(COARSE / FINE) - 1, 0, -1) * FINE
    best[between] = np.maximum(best[between], race.highest(between, finer))
    return tuple((best * race.tops).tolist())


@dataclass(frozen=True, slots=True, eq=False)
class _Race:
    """types: [configuration, instance]; tops: [configuration], queries/s; allowed: late queries that pass."""

    draws: _Draws
    types: Integers
    tops: Floats
    slo: float
    allowed: int

    def highest(self, who: Integers, levels: Floats) -> Floats:
        """Highest of its levels (falling shares of its top) that each configuration passes; 0: none."""
        if not len(who):
            return np.zeros(0)
        rates = (levels * self.tops[who, None]).ravel()
        late, delays = _late_queries(self.draws, np.repeat(self.types[who], levels.shape[1], axis=0), rates, self.slo)
        passes = ((late <= self.allowed) & ~rises(delays)).reshape(levels.shape)
        return np.where(passes.any(axis=1), levels[np.arange(len(levels)), passes.argmax(axis=1)], 0.0)


def _late_queries(draws: _Draws, types: Integers, rates: Floats, slo: float) -> tuple[Integers, Floats]:
    """Late queries [lane], and delays summed by part of the run [part, lane], as `rises` takes them.

    types: [lane, instance], the fastest first. rates: [lane].
    """
    lanes = np.arange(len(rates))
    free = np.zeros(types.shape)
    late = np.zeros(len(rates), dtype=np.int64)
    part = parts_of(len(draws.at)).tolist()
    delays = np.zeros((PARTS + 1, len(rates)))
    last_resort = np.where(types == types[:, :1], _RESERVED, 0.0)
    for at, safe, actual, where in zip(draws.at, draws.safe, draws.actual, part, strict=True):
        now = at / rates
        rank = free - now[:, None]
        np.maximum(rank, 0.0, out=rank)
        done = rank + safe[types]
        rank += last_resort
        np.copyto(rank, done + _LATE, where=done > slo)
        chosen = rank.argmin(axis=1)
        finish = np.maximum(free[lanes, chosen], now) + actual[types[lanes, chosen]]
        free[lanes, chosen] = finish
        delay = finish - now
        delays[where] += delay
        late += delay > slo
    return late, delays[:PARTS]


def _draw(served: DenseLatency, workload: Workload) -> _Draws:
    sizes = workload.sizes
    left, weight = workload.on_knots(served.probabilities)
    ratios = served.ratios[:, sizes, left] * (1 - weight) + served.ratios[:, sizes, left + 1] * weight
    actual, safe = served.means[:, sizes] * ratios, served.quantiles(FEASIBILITY_PERCENTILE)[:, sizes]
    nobody = np.full((1, len(workload)), np.inf)
    return _Draws(workload.times(1.0), np.vstack([safe, nobody]).T, np.vstack([actual, nobody]).T)


def _instances(problem: Problem, served: DenseLatency, configurations: Sequence[Counts]) -> Integers:
    """[configuration, instance]: types, fast ones first, padded with one that serves nothing."""
    order = fastest_first(served.means, served.ratios)
    rows = [np.repeat(order, [dict(counts)[problem.types[i].name] for i in order]) for counts in configurations]
    out = np.full((len(rows), max(len(row) for row in rows)), len(problem.types), dtype=np.int64)
    for row, held in zip(out, rows, strict=True):
        row[: len(held)] = held
    return out
