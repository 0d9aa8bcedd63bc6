"""Tries configurations by the compiled simulation, under the policy that will serve.

Choosing and proving draw different queries: what won by luck does not pass the proof.
"""

from __future__ import annotations

import functools
import hashlib
import math
import threading
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from hetserve.planning.flow.programs.classes import ClassTable, Values
from hetserve.planning.flow.programs.program import FluidRates
from hetserve.simulation.stability import SLOS, fewest_queries

if TYPE_CHECKING:
    from hetserve.dispatch import Policy
    from hetserve.serving.system import System
    from hetserve.simulation.allowable import RateTrial, TrialSetup
    from hetserve.simulation.workload import Workload

SEED: Final = 20_261
"""First seed of a plan's trials."""
MOST_INSTANCES: Final = 400
"""Beyond that many instances a trial takes too long, and a plan says so."""
_SLOWEST: Final = 1e-200
"""Queries/s; less is tried as this: no two queries meet, and times stay finite."""
RAREST: Final = 1e-5
"""Share of late queries below which a proof would need millions of queries."""

FINE: Final = 0.005
LOWEST: Final = 0.005
"""Of the ceiling: what holds less is looked for from a trickle up, and roughly."""
SLOWER: Final = 0.6
_RESERVE: Final = 0.12
"""About what the confident limit of a proof with 64,000 queries adds to a ratio of 1 %.

Least cost keeps half: what passes by luck fails the proof, and one more is tried.
"""
_STEP: Final = 0.08
_WIDE: Final = 10.0
_ROUGH: Final = 0.1
POWER: Final = 15.0
"""Of the rate by which the share of late queries rises near the highest one: 10 to 30 on most pools."""
_PER_INSTANCE: Final = 40
_FEW: Final = 8
_MOST_QUERIES: Final = 120_000


@dataclass(frozen=True, slots=True)
class TrialEffort:
    """queries: of a run, at least. late: that a limit allows over all runs, at least. seeds: of the runs. reserve: see
    `Pooled`; None: judged with confidence. few: times as many queries where one instance serves alone. most: of a run.
    """

    queries: int
    late: int
    seeds: tuple[int, ...]
    reserve: float | None = None
    few: float = 1.0
    most: int = _MOST_QUERIES


def choosing_rate(seed: int) -> TrialEffort:
    return TrialEffort(6000, 80, (seed, seed + 1, seed + 2), _RESERVE)


def choosing_cost(seed: int) -> TrialEffort:
    return TrialEffort(6000, 80, (seed, seed + 1, seed + 2), _RESERVE / 2, few=4.0)


class Remembered:
    """Answers of the trials made last, for all threads of a process."""

    def __init__(self, most: int = 10_000) -> None:
        self._most = most
        self._kept: dict[Hashable, RateTrial] = {}
        self._lock = threading.Lock()

    def answer(self, asked: Hashable, make: Callable[[], RateTrial]) -> RateTrial:
        """What is kept for a question, or what `make` answers; two threads may make the same at once."""
        found = self._kept.get(asked) or make()
        with self._lock:
            self._kept.pop(asked, None)
            self._kept[asked] = found
            if len(self._kept) > self._most:
                del self._kept[next(iter(self._kept))]
        return found

    def forget(self) -> None:
        """Drops all."""
        with self._lock:
            self._kept.clear()


REMEMBERED: Final = Remembered()
"""Of some 5 MB at most."""


class Judge:
    """Trials of one problem's counts (in the table's order); equal questions get equal answers.

    fluid: the ceiling of any counts, from which no trial runs.
    """

    def __init__(self, table: ClassTable, effort: TrialEffort, fluid: FluidRates) -> None:
        self.table, self.effort, self.fluid = table, effort, fluid
        self.tried = 0
        self._made: dict[tuple[Values, float], RateTrial] = {}
        self._drawn: dict[tuple[int, int], Workload] = {}

    def with_effort(self, effort: TrialEffort) -> Judge:
        """Another judge of the same problem, with other draws."""
        other = Judge(self.table, effort, self.fluid)
        other.__dict__["_served"] = self._served
        return other

    def can_try(self, values: Values, rate: float | None = None) -> bool:
        """Whether trials of these counts, long enough to show overload, end in a reasonable time.

        rate: queries/s that they are to hold; None: the most that they hold.
        """
        few_enough = 0 < sum(values) <= MOST_INSTANCES and self.table.allowed >= RAREST
        return few_enough and self._shows_overload(values, rate) <= _MOST_QUERIES

    def triable(self, values: Values) -> float:
        """Highest rate [queries/s] at which trials of a reasonable time show overload; at most the fluid rate."""
        return min(self.fluid(values), _MOST_QUERIES / (2 * SLOS * self.table.problem.slo.latency))

    def holds(self, values: Values, rate: float) -> bool:
        """Whether these counts keep the SLO at a rate [queries/s]."""
        if rate >= self.fluid(values):
            return False
        asked = (values, rate)
        if asked not in self._made:
            self._made[asked] = self._answer(values, max(rate, _SLOWEST))
            self.tried += 1
        return self._made[asked].passed

    @property
    def mixes(self) -> int:
        """Of how many counts trials ran."""
        return len({values for values, _ in self._made})

    def broke(self, values: Values, rate: float) -> bool:
        """Whether a trial was made of this, and failed."""
        made = self._made.get((values, rate))
        return made is not None and not made.passed

    def late(self, values: Values, rate: float) -> float:
        """Mean share of late queries in the runs of a trial, at least `allowed`; that if no run was made."""
        made = self._made.get((values, rate))
        ratios = made.ratios if made is not None else ()
        return max(sum(ratios) / max(len(ratios), 1), self.table.allowed)

    def suggested(self, values: Values, rate: float) -> float:
        """Rate that counts may hold which failed at one [queries/s] in a later run than the first; 0: failed by far."""
        made = self._made.get((values, rate))
        if made is None or (len(made.ratios) < 2 and not made.unstable):
            return 0.0
        return rate * math.pow(self.late(values, rate) / self.table.allowed, -1 / POWER)

    def undecided(self, values: Values, rate: float) -> bool:
        """Whether a trial that failed did so for want of queries: few enough were late, but not with confidence."""
        made = self._made.get((values, rate))
        if made is None or made.passed or made.unstable or len(made.ratios) < len(self.effort.seeds):
            return False
        return sum(made.ratios) / len(made.ratios) <= self.table.allowed

    def highest(self, values: Values, top: float, floor: float = 0.0) -> float:
        """Highest rate that holds, to half a percent of `top`, which does not; 0: not even next to none.

        floor: a rate that holds, from which steps grow upwards; 0: they go down from `top`.
        """
        low, high = self._upwards(values, top, floor) if floor else self._downwards(values, top)
        while low and high - low > (FINE * top if high > LOWEST * top else _ROUGH * high):
            middle = (low + high) / 2
            low, high = (middle, high) if self.holds(values, middle) else (low, middle)
        return low

    def _upwards(self, values: Values, top: float, low: float) -> tuple[float, float]:
        """A rate that holds and a higher one that does not."""
        step = FINE * top
        while low + step < top and self.holds(values, low + step):
            low, step = low + step, 2 * step
        return low, min(low + step, top)

    def _downwards(self, values: Values, top: float) -> tuple[float, float]:
        """The same; 0 if not even next to none holds."""
        high = top
        while high > LOWEST * top:
            rate = max(high - _STEP * top, high * SLOWER)
            if self.holds(values, rate):
                return rate, high
            high = rate
        low = self.table.trickle
        if low >= high or not self.holds(values, low):
            return 0.0, high
        while low * _WIDE < high and self.holds(values, low * _WIDE):
            low *= _WIDE
        return low, min(low * _WIDE, high)

    def _answer(self, values: Values, rate: float) -> RateTrial:
        """A trial, or what an equal one of this process answered: a changed budget or load asks much of it again."""
        trial = self._trial(values)
        queries, seeds = self.queries(values, rate), self.effort.seeds
        asked = (trial.fingerprint, self._mix, queries, seeds, rate)
        return REMEMBERED.answer(asked, lambda: trial.at(rate, [self._work(queries, seed) for seed in seeds]))

    def _trial(self, values: Values) -> TrialSetup:
        from hetserve.simulation.allowable import TrialSetup  # noqa: PLC0415
        from hetserve.simulation.criteria import Confident, Pooled  # noqa: PLC0415  numba loads late

        system, policy = self._served
        counts, percentile = dict(self.table.counts(values)), self.table.problem.slo.percentile
        criterion = Confident() if self.effort.reserve is None else Pooled(self.effort.reserve)
        return TrialSetup(system, counts, policy, percentile, criterion)

    @functools.cached_property
    def _mix(self) -> bytes:
        return hashlib.sha256(repr(self.table.problem.mix).encode()).digest()

    @functools.cached_property
    def _served(self) -> tuple[System, Policy]:
        from hetserve.dispatch import make_policy  # noqa: PLC0415
        from hetserve.serving.system import System  # noqa: PLC0415

        problem = self.table.problem
        profiles = {option.name: option.profile for option in self.table.types}
        return System.of(profiles, problem.mix.batches, problem.slo.latency), make_policy(problem.policy)

    def queries(self, values: Values, rate: float) -> int:
        """Queries of one run: enough late ones to count; few instances are late in clumps, many need time to settle."""
        instances, least = sum(values), self.effort.queries
        rare = self.effort.late / self.table.allowed / len(self.effort.seeds)
        few = min(_FEW / instances, self.effort.few) * least
        long = self._shows_overload(values, rate)
        return min(math.ceil(max(least, few, rare, long, _PER_INSTANCE * instances)), self.effort.most)

    def _shows_overload(self, values: Values, rate: float | None) -> int:
        """Queries until overload shows (decision 0022), in steps of two: counts of about a size see equal queries.

        At any rate of these counts, if that is not too long, so that all of them see equal queries; else at this one.
        """
        most = self._stepped(self.fluid(values))
        return most if most <= _MOST_QUERIES or rate is None else self._stepped(rate)

    def _stepped(self, rate: float) -> int:
        long = fewest_queries(self.table.problem.slo.latency, rate) / self.effort.queries
        return 0 if long <= 1 else self.effort.queries * 2 ** math.ceil(math.log2(long))

    def _work(self, queries: int, seed: int) -> Workload:
        from hetserve.simulation.workload import draw_workload  # noqa: PLC0415

        if (queries, seed) not in self._drawn:
            self._drawn[queries, seed] = draw_workload(self.table.problem.mix, queries, seed)
        return self._drawn[queries, seed]


_EDGE: Final = 0.95
"""Of the fluid rate."""
_PRECISE: Final = 0.015
_NEAR: Final = 1.2
"""Of the allowed share: the short trials of counts that just hold have no more late queries."""


def proving(seed: int, few: float = 1.0) -> TrialEffort:
    return TrialEffort(8000, 200, tuple(range(seed + 10, seed + 18)), few=few)


class Proof:
    """Trials whose limit is a confidence limit; equal questions get equal answers."""

    def __init__(self, judge: Judge, seed: int) -> None:
        self._short = judge.with_effort(proving(seed, judge.effort.few))
        self._long = judge.with_effort(TrialEffort(30_000, 600, tuple(range(seed + 20, seed + 28))))
        longest = TrialEffort(120_000, 2400, tuple(range(seed + 30, seed + 38)), few=4.0, most=480_000)
        self._longest = judge.with_effort(longest)

    @property
    def tried(self) -> int:
        return self._short.tried + self._long.tried + self._longest.tried

    def holds(self, values: Values, rate: float) -> bool:
        """Whether counts hold a rate [queries/s]; longer trials decide where short ones are too few.

        Where a rate takes nearly all time of instances that share GPUs, both must hold: there a run that is not long
        enough sees the queue before it has grown.
        """
        if self._short.holds(values, rate):
            return not self._at_the_edge(values, rate) or self._long.holds(values, rate)
        return self._short.undecided(values, rate) and self._long.holds(values, rate)

    def _at_the_edge(self, values: Values, rate: float) -> bool:
        table = self._short.table
        shares = any(option.shares and n for option, n in zip(table.types, values, strict=True))
        return shares and rate > _EDGE * self._short.fluid(values)

    def just_holds(self, values: Values, rate: float) -> bool:
        """Whether counts hold a rate [queries/s] that may be their highest one: there only long trials tell."""
        if self.holds(values, rate):
            return True
        near = self.late(values, rate) <= _NEAR * self._short.table.allowed
        return near and self._longest.holds(values, rate)

    def broke(self, values: Values, rate: float) -> bool:
        """Whether counts failed at a rate [queries/s] when they were asked to hold it."""
        return self._short.broke(values, rate)

    def late(self, values: Values, rate: float) -> float:
        """Share of late queries in short trials of a rate [queries/s], at least that allowed."""
        self._short.holds(values, rate)
        return self._short.late(values, rate)

    def near(self, values: Values, start: float) -> float:
        """A rate that holds in short trials, at most 1.5 % below one that does not; `start` if that holds; 0: none.

        Looks downwards, where the share of late queries says how far: it rises by a power of the rate. What holds next
        to nothing is tried at length: nearly as many may be late without a wait as are allowed.
        """
        if start <= 0:
            return 0.0
        found, least = self._near(values, start, self._short.holds), min(self._short.table.trickle, start)
        if found or not self.just_holds(values, least):
            return found
        return self._near(values, start, self.holds) or self._near(values, start, self.just_holds) or least

    def _near(self, values: Values, start: float, holds: Callable[[Values, float], bool]) -> float:
        low, high, least = 0.0, start, _PRECISE
        rate = start
        while rate >= min(self._short.table.trickle, start):
            if holds(values, rate):
                low = rate
            else:
                high = rate
            if low and (low == start or high - low <= _PRECISE * high * (1 + 1e-9)):
                return low
            if low:
                rate = (low + high) / 2
            else:
                over = self._short.late(values, rate) / self._short.table.allowed
                rate, least = rate * min(over ** (-1 / POWER), 1 - least), min(2 * least, 1 - SLOWER)
        return low
