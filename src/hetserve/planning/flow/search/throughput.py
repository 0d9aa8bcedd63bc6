"""The most throughput for a budget: leading solutions race, the best one's neighbours follow, the winner is proved."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from hetserve.planning.flow.programs.classes import COARSE, Values
from hetserve.planning.flow.search.judge import FINE, Judge, Proof
from hetserve.planning.flow.search.leading import leading, neighbours, splits, without_one

_ROUNDS: Final = 6
_PER_ROUND: Final = 10
_RUNNERS_UP: Final = 5
_BARELY: Final = 4
_NEAR: Final = 0.97
"""A neighbour whose fluid rate is lower than this share of the best one's is not tried."""


@dataclass(slots=True)
class Race:
    """The best counts so far, and the highest rate [queries/s] that they hold.

    entered: those that ran, in order, with the rate that they were seen to hold (0: less than the best by then).
    nearly: the rate that those refused by little may hold. ample: those that cannot be tried. room: the fluid rate that
    is enough to hold the same for less: close to the rate held short trials hardly tell counts apart, so there half a
    percent of it is given away.
    """

    judge: Judge
    best: Values = ()
    rate: float = 0.0
    entered: dict[Values, float] = field(default_factory=dict)
    nearly: dict[Values, float] = field(default_factory=dict)
    ample: dict[Values, None] = field(default_factory=dict)
    room: float = 0.0

    def enter(self, values: Values) -> bool:
        """Lets counts run; whether they are the best now: more by the step of the search, or the same for less."""
        if values in self.entered or values in self.ample:
            return False
        if not self.judge.can_try(values):
            self.ample[values] = None
            return False
        cheaper = bool(self.best) and self.judge.table.cost(values) < self.judge.table.cost(self.best)
        top = self.judge.fluid(values)
        target = self.rate if cheaper and top >= self.room else self.rate * (1 + FINE)
        if top <= target:
            return False
        self.entered[values] = 0.0
        if self.rate and not self.judge.holds(values, target):
            self.nearly[values] = self.judge.suggested(values, target)
            return False
        found = self.judge.highest(values, top, target)
        if found <= 0:
            return False
        if found > self.rate:
            self.room = min(found / _NEAR, (1 - FINE) * top)
        self.entered[values] = found
        self.best, self.rate = values, found
        return True

    def runners_up(self) -> list[Values]:
        """Those that hold, or may, a greater share of their fluid rate than the best: the greatest shares first."""
        above = [values for values in self.entered if self.share(values) > self.share(self.best)]
        above.sort(key=lambda v: (-self.share(v), self.judge.table.cost(v), v))
        return above[:_RUNNERS_UP]

    def share(self, values: Values) -> float:
        """Of their fluid rate, what counts that ran hold or may hold; to six digits, as solvers err."""
        rate = self.entered[values] or self.nearly.get(values, 0.0)
        return float(f"{rate / self.judge.fluid(values):.6g}")


def race(judge: Judge, budget: int) -> Race:
    """Runs the leading solutions, those of the highest fluid rate first, then neighbours of the best."""
    run, table = Race(judge), judge.table
    coarse = table.merged(COARSE)
    _enter_all(run, leading(coarse, budget))
    _enter_all(run, without_one(coarse, budget, run.best))
    _enter_all(run, splits(table, budget))
    for _ in range(_ROUNDS):
        if not run.best or not (_climbed(run, budget) or overtaken(run, budget)):
            break
    if run.best:
        _thin(run)
    return run


def barely(run: Race, proof: Proof) -> float:
    """Where nothing holds with anything in hand, what the best then holds [queries/s]; 0: nothing does.

    Nearly as many are late without a wait as may be: those of which fewest are next to no load are proved.
    """
    fluid, least = run.judge.fluid, run.judge.table.trickle
    late = {values: proof.late(values, least) for values in run.entered}
    ranked = sorted(late, key=lambda v: (late[v], -fluid(v), run.judge.table.cost(v), v))
    rates = {v: proof.near(v, fluid(v)) for v in ranked[:_BARELY] if proof.just_holds(v, least)}
    if rates:
        run.best = max(rates, key=lambda v: (rates[v], fluid(v), -run.judge.table.cost(v), v))
        run.rate = run.entered[run.best] = rates[run.best]
    return run.rate


def _enter_all(run: Race, values: Iterable[Values]) -> None:
    """Of equal fluid rates the cheaper ones run first: the dearer must then hold more."""
    fluid = {one: float(f"{run.judge.fluid(one):.6g}") for one in values}
    for one in sorted(fluid, key=lambda v: (-fluid[v], run.judge.table.cost(v), v)):
        run.enter(one)


def _thin(run: Race) -> None:
    """Leaves out instances without which the best holds as much: of each type, the most money first."""
    types, least = run.judge.table.types, run.judge.table.problem.least_total
    for i in sorted(range(len(types)), key=lambda i: -types[i].price * run.best[i]):
        others = sum(run.best) - run.best[i]
        low, high = max(types[i].min_instances, least - others) - 1, run.best[i]
        step = 1
        while high - low > 1:
            count = max(high - step, (low + high) // 2)
            fewer = (*run.best[:i], count, *run.best[i + 1 :])
            if run.judge.fluid(fewer) >= run.room and run.judge.holds(fewer, run.rate):
                run.best, run.entered[fewer], high, step = fewer, run.rate, count, 2 * step
            else:
                low = count


def _climbed(run: Race, budget: int) -> bool:
    """Whether a neighbour of the best took its place."""
    table = run.judge.table
    least = _NEAR * run.judge.fluid(run.best)
    near = run.judge.fluid.highest(neighbours(table, run.best, budget), run.best, _PER_ROUND, least)
    near.sort(key=lambda v: (-run.judge.fluid(v), table.cost(v), v))
    before = run.best
    for values in near[:_PER_ROUND]:
        run.enter(values)
    return run.best != before


def overtaken(run: Race, budget: int) -> bool:
    """Whether a neighbour of a runner-up took the place of the best one.

    A neighbour runs if it would hold more than the best by holding as great a share of its fluid rate as the runner-up.
    """
    fluid, table, before = run.judge.fluid, run.judge.table, run.best
    hoped: dict[Values, float] = {}
    for values in run.runners_up():
        share, near = run.share(values), neighbours(table, values, budget)
        for one in fluid.highest(near, values, _PER_ROUND, run.rate * (1 + FINE) / share):
            hoped[one] = max(float(f"{share * fluid(one):.6g}"), hoped.get(one, 0.0))
    untried = sorted(hoped.keys() - run.entered.keys(), key=lambda v: (-hoped[v], table.cost(v), v))
    for values in untried[:_PER_ROUND]:
        run.enter(values)
    return run.best != before
