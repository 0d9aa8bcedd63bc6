"""Plays the arrivals of a trace against the instances of a course, each query through the dispatch policy."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from hetserve.dispatch import make_policy
from hetserve.planning.problem import Problem
from hetserve.scaling.replay.arrivals import Arrived, Floats
from hetserve.scaling.replay.fleet import Span
from hetserve.simulation.shared import GpuInstance, JointRun, SharedService
from hetserve.simulation.system import System
from hetserve.simulation.workload import draw_workload

_PIECE: Final = 600.0
"""Seconds of arrivals that are planned at once: each instance that comes or goes looks at all of them."""
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


def serve(
    problem: Problem,
    arrived: Arrived,
    spans: Sequence[Span],
    seed: int,
    passed: Callable[[float], None] = lambda _: None,
) -> Served:
    """The queries of a trace on instances, each on a GPU of its own, under the problem's dispatch policy.

    seed: of service times, and of batch sizes that the trace does not have. passed: called with times that the
    simulation has reached [s]. Queries that wait when the trace ends are served by what runs then.
    """
    tally = _Tally(problem.slo.latency, arrived)
    batches = problem.mix.batches if arrived.sizes is None else arrived.sizes.batches
    run, players = JointRun([_service(problem, batches)]), _Players(problem.service, spans, arrived.begin)
    sizes, draws = _drawn(problem, len(arrived.times), seed)
    if arrived.sizes is not None:
        sizes = arrived.sizes.of
    at = arrived.times - arrived.begin
    cuts = sorted({0.0, *players.times, *np.arange(0.0, arrived.end - arrived.begin, _PIECE).tolist()})
    for begin, end in pairwise((*cuts, math.inf)):
        players.move(run, begin)
        piece = slice(*np.searchsorted(at, [begin, end]))
        run.arrive(problem.service, at[piece], sizes[piece], draws[piece])
        tally.count(run, run.until(end))
        passed(arrived.begin + begin)
    return tally.served()


class _Players:
    """The instances of a course as they join and drain. Times from the trace's beginning [s]."""

    def __init__(self, service: str, spans: Sequence[Span], begin: float) -> None:
        self._service, self._spans = service, spans
        self._begin = begin
        self._numbers: dict[int, int] = {}
        self._joins = self._by_time({i: s.ready for i, s in enumerate(spans) if s.served})
        self._drains = self._by_time({i: s.left for i, s in enumerate(spans) if s.served and s.left < math.inf})

    def _by_time(self, when: Mapping[int, float]) -> dict[float, list[int]]:
        found: dict[float, list[int]] = {}
        for number, at in when.items():
            found.setdefault(max(at - self._begin, 0.0), []).append(number)
        return found

    @property
    def times(self) -> Iterator[float]:
        """When instances join or drain."""
        yield from self._joins
        yield from self._drains

    def move(self, run: JointRun, now: float) -> None:
        """Those that join now, then those that drain now."""
        for i in self._joins.get(now, ()):
            self._numbers[i] = run.join(GpuInstance(self._service, self._spans[i].type, f"{i}"))
        for i in self._drains.get(now, ()):
            run.drain(self._numbers[i])


class _Tally:
    """Counts ended queries, and forgets them."""

    def __init__(self, slo: float, arrived: Arrived) -> None:
        self._slo, self._at = slo, arrived.times - arrived.begin
        self._in_time = np.zeros(self._minutes(self._at[-1:]).max(initial=0) + 1, np.int64)

    @staticmethod
    def _minutes(at: Floats) -> NDArray[np.int64]:
        return (at // _MINUTE).astype(np.int64)

    def count(self, run: JointRun, ended: NDArray[np.int64]) -> None:
        outcome = run.outcome(ended)
        # As the loops compare: the deadline is a sum too; nan, of what was dropped, is not in time.
        met = outcome.arrival[outcome.finish <= outcome.arrival + self._slo]
        self._in_time += np.bincount(self._minutes(met), minlength=len(self._in_time))
        run.forget()

    def served(self) -> Served:
        all_queries = np.bincount(self._minutes(self._at), minlength=len(self._in_time))
        late = all_queries - self._in_time
        return Served(len(self._at), int(late.sum()), np.stack((all_queries, late), axis=1))


def _service(problem: Problem, batches: tuple[int, ...]) -> SharedService:
    profiles = {option.name: option.profile for option in problem.types}
    system = System.of(profiles, batches, problem.slo.latency)
    return SharedService(problem.service, system, make_policy(problem.policy))


def _drawn(problem: Problem, queries: int, seed: int) -> tuple[NDArray[np.int64], Floats]:
    """Sizes [query], as index into the mix, and draws of the service times [query]."""
    if not queries:
        return np.zeros(0, np.int64), np.zeros(0)
    workload = draw_workload(problem.mix, queries, seed)
    return workload.sizes, workload.service_draws
