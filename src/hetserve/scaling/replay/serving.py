"""Plays the arrivals of a trace against the instances of a course, each query through the dispatch policy."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from hetserve.demand.observed import ShareSample
from hetserve.dispatch import make_policy
from hetserve.planning.problem import Problem
from hetserve.profiles.latency_factors import factor_of
from hetserve.scaling.replay.arrivals import SLACK, Arrived, Floats
from hetserve.scaling.replay.fleet import Span
from hetserve.serving.services import GpuInstance, Service
from hetserve.serving.session import Outcomes, Session
from hetserve.serving.system import System
from hetserve.simulation.workload import draw_workload

_PATIENCE: Final = 15.0
"""Seconds after which a client gives up a query that waits, as in the load twin; clients look so often, too.

So many seconds of arrivals are planned at once: whoever comes, goes or is forgotten moves all of them.
"""
_MINUTE: Final = 60.0


@dataclass(frozen=True, slots=True)
class Served:
    """What became of the queries. late: later than the SLO, or never served. by_minute: [minute], (queries, late)."""

    queries: int
    late: int
    by_minute: NDArray[np.int64] = field(repr=False)

    @property
    def late_share(self) -> float:
        """0 without queries."""
        return self.late / self.queries if self.queries else 0.0


class Play:
    """The queries of a trace on instances, each on a GPU of its own, under the problem's dispatch policy.

    It goes on step by step, so that what becomes of the queries can decide which instances there are next. Clients give
    up queries that wait for an instance for long: else a time without enough of them would make all later ones wait.
    """

    def __init__(
        self,
        problem: Problem,
        arrived: Arrived,
        spans: Sequence[Span],
        seed: int,
        factors: Mapping[str, float] | None = None,
    ) -> None:
        """spans: may grow, and end, at the time that was reached or later.

        seed: of service times, and of batch sizes that the trace does not have. factors: real service times / those of
        the profiles, by type, as of `latency_factors`: nobody who plans or dispatches knows them.
        """
        self._arrived, self._service = arrived, problem.service
        batches = problem.mix.batches if arrived.sizes is None else arrived.sizes.batches
        self._run = Session([_service(problem, batches, factors or {})])
        self._spans, self._known = spans, 0
        self._live: dict[int, Span] = {}
        """By place in the course: those that may still come or go."""
        self._at = arrived.times - arrived.begin
        drawn = draw_workload(problem.mix, max(len(self._at), 1), seed)
        self._sizes = drawn.sizes if arrived.sizes is None else arrived.sizes.of
        self._draws = drawn.service_draws
        self._now = 0.0
        """Where the play is, from the trace's beginning [s]."""
        self._in_time = np.zeros(_minutes(self._at[-1:]).max(initial=0) + 1, np.int64)
        self._ended = self._met = 0
        self._marks = deque([(arrived.begin, 0, 0)])
        """Times of the trace [s], a window back, with all queries that had ended and been in time before."""
        self._shares: deque[ShareSample] = deque()

    def until(self, now: float) -> None:
        """Plays all that comes before a time of the trace [s], which is not before the one reached."""
        end = now - self._arrived.begin
        if end > self._now:
            self._go_on(end)
        if now < math.inf:
            self._mark(now)

    def _go_on(self, end: float) -> None:
        # When nothing arrives any more, what waits is left to who serves then.
        over = min(end, float(self._at[-1]) + 1 if len(self._at) else 0.0)
        looks = np.arange(math.ceil(self._now / _PATIENCE), over / _PATIENCE) * _PATIENCE
        cuts = sorted({self._now, *looks.tolist(), *self._changes(end)})
        for first, last in pairwise((*cuts, end)):
            if first % _PATIENCE == 0:
                self._run.give_up(_PATIENCE)
                self._plan_piece(first)
            self._run.stand(self._standing(first))
            self._run.until(last)
            self._count(self._run.tally())
        self._now = end

    def _times(self, span: Span) -> tuple[float, float]:
        """When an instance joins and drains, from the trace's beginning [s]."""
        return max(span.ready - self._arrived.begin, 0.0), max(span.left - self._arrived.begin, 0.0)

    def _changes(self, end: float) -> set[float]:
        """When instances join or drain, from now to before another time."""
        self._live |= dict(enumerate(self._spans[self._known :], self._known))
        self._known = len(self._spans)
        self._live = {k: span for k, span in self._live.items() if span.served and self._times(span)[1] >= self._now}
        return {at for span in self._live.values() for at in self._times(span) if self._now <= at < end}

    def _standing(self, now: float) -> dict[str, GpuInstance]:
        """Those that take queries, each on a GPU of its own."""
        times = {k: self._times(span) for k, span in self._live.items()}
        here = [k for k, (ready, left) in times.items() if ready <= now < left]
        return {f"{k}": GpuInstance(self._service, self._live[k].type, f"{k}") for k in here}

    def _plan_piece(self, begin: float) -> None:
        """The arrivals of the next piece."""
        piece = slice(*np.searchsorted(self._at, [begin, begin + _PATIENCE]))
        self._run.arrive(self._service, self._at[piece], self._sizes[piece], self._draws[piece])

    def _count(self, ended: Outcomes) -> None:
        met = _minutes(ended.arrival[~ended.late])
        np.add.at(self._in_time, met, 1)
        self._ended, self._met = self._ended + len(ended.late), self._met + len(met)

    def _mark(self, now: float) -> None:
        """All that ended before a time of the trace [s] is counted."""
        begin = now - self._arrived.window + SLACK
        self._marks.append((now, self._ended, self._met))
        while self._marks[1][0] <= begin:
            self._marks.popleft()
        since, ended, met = self._marks[0]
        queries = self._ended - ended
        if queries and since <= begin and self._arrived.knows(now):
            self._shares.append(ShareSample(now, (self._met - met) / queries, float(queries)))

    def attained(self, now: float) -> tuple[ShareSample, ...]:
        """Shares in time of the queries that ended in each window of a rate, at the times up to which it was played.

        Those that decisions at a time of the trace [s] may look back to, where anything is measured.
        """
        while self._shares and self._shares[0].at <= now - self._arrived.kept:
            self._shares.popleft()
        return tuple(self._shares)

    def served(self) -> Served:
        """What became of all queries. Those that wait when the trace ends are served by what runs then."""
        self.until(math.inf)
        all_queries = np.bincount(_minutes(self._at), minlength=len(self._in_time))
        late = all_queries - self._in_time
        return Served(len(self._at), int(late.sum()), np.stack((all_queries, late), axis=1))


def _minutes(at: Floats) -> NDArray[np.int64]:
    return (at // _MINUTE).astype(np.int64)


def _service(problem: Problem, batches: tuple[int, ...], factors: Mapping[str, float]) -> Service:
    profiles = {option.name: option.profile for option in problem.types}
    system = System.of(profiles, batches, problem.slo.latency)
    slower = np.array([factor_of(factors, name) for name in profiles])
    return Service(problem.service, system.slowed(slower), make_policy(problem.policy))
