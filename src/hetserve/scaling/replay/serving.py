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
from hetserve.serving.session import Session
from hetserve.serving.system import System
from hetserve.simulation.workload import draw_workload

_PIECE: Final = 60.0
"""Seconds of arrivals that are planned at once: whoever comes, goes or is forgotten moves all of them."""
_PATIENCE: Final = 15.0
"""Seconds after which a client gives up a query that waits, as in the load twin; clients look so often, too."""
_MINUTE: Final = 60.0
_AS_DECLARED: Final[Mapping[str, float]] = {}


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
        factors: Mapping[str, float] = _AS_DECLARED,
    ) -> None:
        """spans: may grow, and end, at the time that was reached or later.

        seed: of service times, and of batch sizes that the trace does not have. factors: real service times / those of
        the profiles, by type, as of `latency_factors`: nobody who plans or dispatches knows them.
        """
        self._arrived, self._service, self._slo = arrived, problem.service, problem.slo.latency
        batches = problem.mix.batches if arrived.sizes is None else arrived.sizes.batches
        self._run = Session([_service(problem, batches, factors)])
        self._tally, self._players = _Tally(problem.slo.latency, arrived), _Players(problem.service, spans, arrived)
        self._at = arrived.times - arrived.begin
        self._sizes, self._draws = _drawn(problem, len(arrived.times), seed)
        if arrived.sizes is not None:
            self._sizes = arrived.sizes.of
        self._planned = self._now = 0.0
        """Up to where arrivals are planned, and where the play is. Both from the trace's beginning [s]."""

    def until(self, now: float) -> None:
        """Plays all that comes before a time of the trace [s], which is not before the one reached."""
        end = now - self._arrived.begin
        if end > self._now:
            self._go_on(end)
        if now < math.inf:
            self._tally.mark(now)

    def _go_on(self, end: float) -> None:
        # When nothing arrives any more, what waits is left to who serves then.
        over = min(end, float(self._at[-1]) + 1 if len(self._at) else 0.0)
        pieces = np.arange(self._planned, over, _PIECE).tolist()
        looks = np.arange(math.floor(self._now / _PATIENCE) + 1, over / _PATIENCE) * _PATIENCE
        cuts = sorted({self._now, *pieces, *looks.tolist(), *self._players.times(self._now, end)})
        for first, last in pairwise((*cuts, end)):
            self._give_up(first)
            self._players.move(self._run, first)
            if first >= self._planned:
                self._plan_piece()
            self._tally.count(self._run, self._run.until(last))
        self._now = end

    def _give_up(self, now: float) -> None:
        """Drops what has waited for too long, when clients look."""
        if now % _PATIENCE == 0 and self._run.waiting().any():
            self._tally.count(self._run, self._run.give_up(self._service, now - max(_PATIENCE, self._slo)))

    def attained(self, now: float) -> tuple[ShareSample, ...]:
        """Shares in time of the queries that ended in each window of a rate, at the times up to which it was played.

        Those that decisions at a time of the trace [s] may look back to, where anything is measured.
        """
        return self._tally.attained(now)

    def served(self) -> Served:
        """What became of all queries. Those that wait when the trace ends are served by what runs then."""
        self.until(math.inf)
        return self._tally.served()

    def _plan_piece(self) -> None:
        """The arrivals of the next piece."""
        begin, self._planned = self._planned, self._planned + _PIECE
        piece = slice(*np.searchsorted(self._at, [begin, self._planned]))
        self._run.arrive(self._service, self._at[piece], self._sizes[piece], self._draws[piece])


class _Players:
    """The instances of a course as they join and drain. Times from the trace's beginning [s]."""

    def __init__(self, service: str, spans: Sequence[Span], arrived: Arrived) -> None:
        self._service, self._spans, self._begin = service, spans, arrived.begin
        self._known = self._joined = 0
        self._coming: list[Span] = []
        self._there: list[tuple[Span, int]] = []

    def _take_over(self) -> None:
        """New spans; those that will never serve are left out."""
        self._coming = [span for span in (*self._coming, *self._spans[self._known :]) if span.served]
        self._known = len(self._spans)

    def _time(self, at: float) -> float:
        return max(at - self._begin, 0.0)

    def times(self, begin: float, end: float) -> set[float]:
        """When instances join or drain, from one time to before another."""
        self._take_over()
        joins = (self._time(span.ready) for span in self._coming)
        drains = (self._time(span.left) for span in (*self._coming, *(span for span, _ in self._there)))
        return {at for at in (*joins, *drains) if begin <= at < end}

    def move(self, run: Session, now: float) -> None:
        """Those that join by now, then those that drain by now."""
        for span in [one for one in self._coming if self._time(one.ready) <= now]:
            number = run.join(GpuInstance(self._service, span.type, f"{self._joined}"))
            self._joined += 1
            self._there.append((span, number))
        self._coming = [one for one in self._coming if self._time(one.ready) > now]
        for span, number in self._there:
            if self._time(span.left) <= now:
                run.drain(number)
        self._there = [one for one in self._there if self._time(one[0].left) > now]


class _Tally:
    """Counts ended queries, and forgets them."""

    def __init__(self, slo: float, arrived: Arrived) -> None:
        self._slo, self._arrived, self._at = slo, arrived, arrived.times - arrived.begin
        self._in_time = np.zeros(self._minutes(self._at[-1:]).max(initial=0) + 1, np.int64)
        self._ended = self._met = 0
        self._marks = deque([(arrived.begin, 0, 0)])
        """Times of the trace [s], a window back, with all queries that had ended and been in time before."""
        self._shares: deque[ShareSample] = deque()

    @staticmethod
    def _minutes(at: Floats) -> NDArray[np.int64]:
        return (at // _MINUTE).astype(np.int64)

    def count(self, run: Session, ended: NDArray[np.int64]) -> None:
        outcome = run.outcome(ended)
        # As the loops compare: the deadline is a sum too; nan, of what was dropped, is not in time.
        met = self._minutes(outcome.arrival[outcome.finish <= outcome.arrival + self._slo])
        if len(met):
            first, counts = met.min(), np.bincount(met - met.min())
            self._in_time[first : first + len(counts)] += counts
        self._ended, self._met = self._ended + len(ended), self._met + len(met)
        run.forget()

    def mark(self, now: float) -> None:
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
        while self._shares and self._shares[0].at <= now - self._arrived.kept:
            self._shares.popleft()
        return tuple(self._shares)

    def served(self) -> Served:
        all_queries = np.bincount(self._minutes(self._at), minlength=len(self._in_time))
        late = all_queries - self._in_time
        return Served(len(self._at), int(late.sum()), np.stack((all_queries, late), axis=1))


def _service(problem: Problem, batches: tuple[int, ...], factors: Mapping[str, float]) -> Service:
    profiles = {option.name: option.profile for option in problem.types}
    system = System.of(profiles, batches, problem.slo.latency)
    slower = np.array([factor_of(factors, name) for name in profiles])
    return Service(problem.service, system.slowed(slower), make_policy(problem.policy))


def _drawn(problem: Problem, queries: int, seed: int) -> tuple[NDArray[np.int64], Floats]:
    """Sizes [query], as index into the mix, and draws of the service times [query]."""
    if not queries:
        return np.zeros(0, np.int64), np.zeros(0)
    workload = draw_workload(problem.mix, queries, seed)
    return workload.sizes, workload.service_draws
