"""What a configuration really holds: simulated under policy `hetserve`, apart from every planner.

A rate passes if, over all seeds together, no more queries are late than the percentile allows, and no backlog grows:
all configurations of a pool get the same draws. Choice and proof have their own seeds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from hetserve.dispatch import Policy, make_policy
from hetserve.planning import Problem
from hetserve.serving.state import DROPPED
from hetserve.serving.system import System
from hetserve.simulation.run import run_alone
from hetserve.simulation.stability import Backlog, backlog_of, ceiling, fewest_queries, grows
from hetserve.simulation.workload import Workload, draw_workload

Numbers = tuple[int, ...]
"""Instances per type, in the problem's order."""

STEP: Final = 0.93
RESOLUTION: Final = 0.005
LOWEST: Final = 0.02
"""Of the ceiling: what holds less holds nothing."""
_MOST_QUERIES: Final = 400_000
_RISING: Final = 22
"""Kendall's S, of at most 45."""


@dataclass(frozen=True, slots=True)
class Runs:
    """Seeds and queries of a kind of run."""

    name: str
    queries: int
    seeds: tuple[int, ...]


SEARCH: Final = Runs("search", 20_000, (70_101, 70_102, 70_103))
PROOF: Final = Runs("proof", 40_000, (80_201, 80_202, 80_203, 80_204))
LONG: Final = Runs("long", 50_000, (90_301, 90_302, 90_303, 90_304, 90_305))
RIVALS: Final = Runs("rivals", 10_000, (60_401, 60_402, 60_403))
KINDS: Final = (SEARCH, PROOF, LONG, RIVALS)


@dataclass(frozen=True, slots=True)
class Trial:
    """late: share of the queries, of a stopped run a part of it. steady: no backlog grows."""

    late: float
    steady: bool
    passed: bool


@dataclass(slots=True)
class Judge:
    """Trials of one pool; memo: those made, kept between runs."""

    given: Problem
    memo: dict[str, tuple[float, bool, bool]] = field(default_factory=dict)
    policy: str = "hetserve"
    made: int = 0
    _works: dict[tuple[str, int], list[Workload]] = field(default_factory=dict)
    _ceilings: dict[Numbers, float] = field(default_factory=dict)
    _system: System = field(init=False)
    _policy: Policy = field(init=False)

    def __post_init__(self) -> None:
        profiles = {option.name: option.profile for option in self.given.types}
        self._system = System.of(profiles, self.given.mix.batches, self.given.slo.latency)
        self._policy = make_policy(self.policy)

    @property
    def allowed(self) -> float:
        """Share of queries that may be late."""
        return 1 - self.given.slo.percentile / 100

    def ceiling(self, numbers: Numbers) -> float:
        """Rate from which every backlog grows [queries/s]."""
        if numbers not in self._ceilings:
            self._ceilings[numbers] = ceiling(self._system, self._named(numbers), self.given.mix) if any(numbers) else 0
        return self._ceilings[numbers]

    def passes(self, numbers: Numbers, rate: float, runs: Runs) -> bool:
        return self.trial(numbers, rate, runs).passed

    def trial(self, numbers: Numbers, rate: float, runs: Runs, *, whole: bool = False) -> Trial:
        """One rate [queries/s]; whole: to the end, for the share of late queries itself."""
        rate = float(f"{rate:.6g}")
        key = f"{self.policy}|{runs.name}{'+' if whole else ''}|{','.join(map(str, numbers))}|{rate:g}"
        if key not in self.memo:
            found = self._trial(numbers, rate, runs, whole=whole)
            self.memo[key] = (float(f"{found.late:.6g}"), found.steady, found.passed)
            self.made += 1
        return Trial(*self.memo[key])

    def rate(self, numbers: Numbers, runs: Runs, near: float | None = None) -> float:
        """Highest rate that passes, from above, to half a percent; 0: none.

        near: where to begin; None: at the ceiling.
        """
        top = self.ceiling(numbers)
        return highest(lambda rate: self.passes(numbers, rate, runs), top, near) if top > 0 else 0.0

    def _trial(self, numbers: Numbers, rate: float, runs: Runs, *, whole: bool) -> Trial:
        if rate >= self.ceiling(numbers):
            return Trial(1.0, steady=False, passed=False)
        works = self._workloads(runs, rate)
        total, counts = sum(map(len, works)), self._named(numbers)
        most = math.floor(self.allowed * total + 1e-9)
        late, backlogs = 0, list[Backlog]()
        for work in works:
            stop = None if whole else most - late
            outcome = run_alone(self._system, counts, self._policy, work, rate, stop_after=stop).outcome()
            late += int(outcome.late.sum())
            if late > most and not whole:
                return Trial(late / total, steady=True, passed=False)
            backlogs.append(backlog_of(outcome.arrival, outcome.finish, outcome.instance == DROPPED))
        steady = not growing(backlogs)
        return Trial(late / total, steady, late <= most and steady)

    def _workloads(self, runs: Runs, rate: float) -> list[Workload]:
        """Long enough to show overload, and for a percentile beyond 99 longer."""
        rare = max(0.01 / self.allowed, 1.0) ** 0.5
        needed = max(round(runs.queries * rare), fewest_queries(self.given.slo.latency, rate))
        queries = min(next(size for size in _sizes(round(runs.queries * rare)) if size >= needed), _MOST_QUERIES)
        key = runs.name, queries
        if key not in self._works:
            self._works[key] = [draw_workload(self.given.mix, queries, seed) for seed in runs.seeds]
        return self._works[key]

    def _named(self, numbers: Numbers) -> dict[str, int]:
        return dict(zip((option.name for option in self.given.types), numbers, strict=True))


def growing(backlogs: Sequence[Backlog]) -> bool:
    """Whether the backlog grows in every seed alone, as one without limit does (44 of 45 pairs of parts rise then).

    Near the limit a queue of limited length wanders so slowly that the test over all seeds together calls it growing.
    """
    return grows(backlogs) and min(backlog.trend for backlog in backlogs) > _RISING


def highest(passes: Callable[[float], bool], top: float, near: float | None = None) -> float:
    """Highest rate below `top` that passes: from above by 7 %, then within the last step to half a percent; 0: none.

    near: begins there and, if that passes, goes up instead.
    """
    start = top if near is None else min(near, top)
    good, bad = _bracket(passes, start, top)
    if good == 0:
        return 0.0
    while bad - good > RESOLUTION * good:
        middle = (good + bad) / 2
        good, bad = (middle, bad) if passes(middle) else (good, middle)
    return good


def _bracket(passes: Callable[[float], bool], start: float, top: float) -> tuple[float, float]:
    """A rate that passes and one above it that does not; (0, ...): nothing passes."""
    rate, bad = start, start
    if start < top and passes(start):
        while True:
            higher = min(rate / STEP, top)
            if higher >= top or not passes(higher):
                return rate, higher
            rate = higher
    while rate > LOWEST * top:
        bad, rate = rate, rate * STEP
        if passes(rate):
            return rate, bad
    return 0.0, bad


def _sizes(first: int) -> Iterator[int]:
    """Lengths of runs: few, so that draws are shared."""
    size = first
    while True:
        yield size
        size *= 2
