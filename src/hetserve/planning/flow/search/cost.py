"""The least cost that carries a load: programs at falling saturations, trimmed, tried, and the cheapest proved."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from hetserve.planning.flow.programs.classes import COARSE, ClassTable, Values
from hetserve.planning.flow.programs.program import CEILING, Margin, least_cost
from hetserve.planning.flow.search.judge import Judge, Proof
from hetserve.planning.flow.search.leading import allowed, neighbours, pairs, splits
from hetserve.planning.flow.search.untried import Theory

SATURATIONS: Final = (1.0, 0.95, 0.9, 0.85, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.13, 0.08, 0.05)
_MULTIPLES: Final = (2, 3, 4, 6, 8, 12)
MARGINS: Final = ((0.0, 0.2), (0.0, 0.6), (0.1, 0.3), (0.25, 0.3))
"""wait, late"""
_PAIRED: Final = Margin(wait=0.1, late=0.3)
_ALONE: Final = Margin(most_late=1.0)
"""Of one type alone, more than which nobody can be late: where most of those allowed are late without a wait."""
_TRIMS: Final = 24
_PER_TRIM: Final = 16
_GAIN: Final = 0.005
"""Of the objective: what saves less is not tried, for the more are tried, the more hold by luck."""
_LUCK: Final = 0.02
"""Of the objective: what is proved may cost so much more than what was chosen."""
_ABOVE: Final = (0.0, 0.02, 0.05, 0.1, 0.2, 0.4, 0.8)


@dataclass(slots=True)
class CostClimb:
    """Counts by objective (cost and launch charges), as far as they are tried.

    place: in SATURATIONS, of the last program whose counts held. holding: those that hold the load. reckoned: those
    that cannot be tried, by theory.
    """

    table: ClassTable
    judge: Judge
    load: float
    budget: int | None
    theory: Theory
    place: int = 0
    holding: dict[Values, int] = field(default_factory=dict)
    tried: dict[Values, bool] = field(default_factory=dict)
    reckoned: dict[Values, bool] = field(default_factory=dict)

    @property
    def best(self) -> Values | None:
        return min(self.holding, key=self.table.key, default=None)

    def try_(self, values: Values) -> bool:
        """Whether counts hold the load in the trials that choose, or by theory where trials take too long."""
        if not self.known(values) and allowed(self.table, values, self.budget):
            if self.judge.can_try(values, self.load):
                holds = self.tried[values] = self.judge.holds(values, self.load)
            else:
                holds = self.reckoned[values] = self.theory.rate(values) >= self.load
            if holds:
                self.holding[values] = self.table.objective(values)
        return values in self.holding

    def known(self, values: Values) -> bool:
        return values in self.tried or values in self.reckoned

    @property
    def simulated(self) -> list[Values]:
        """Those of which trials ran: at or beyond their fluid rate none does."""
        return [values for values in self.tried if self.judge.fluid(values) > self.load]

    def beats(self, values: Values) -> bool:
        return self.best is None or self.table.key(values) < self.table.key(self.best)


def climb(judge: Judge, theory: Theory, load: float, budget: int | None, others: Iterable[Values] = ()) -> CostClimb:
    """Finds counts that hold the load for little money; none may hold. others: tried too."""
    table = judge.table
    run = CostClimb(table.merged(COARSE), judge, load, budget, theory)
    for wait, late in MARGINS:
        _descend(run, Margin(wait=wait, late=late))
    for both in pairs(run.table):
        _descend(run, _PAIRED, both)
    for i in range(len(run.table.types)):
        _descend(run, _ALONE, (i,))
    if not (run.tried or run.reckoned):
        _descend(run, CEILING)
    for values in sorted(others, key=run.table.key):
        if run.beats(values):
            run.try_(values)
    for _ in range(_TRIMS):
        if not _trimmed(run):
            break
    return run


def _descend(run: CostClimb, margin: Margin, only: tuple[int, ...] | None = None) -> None:
    """Tries the program at falling saturations until its counts hold or cost more than the best.

    It starts where the last one held: higher saturations follow while theirs hold or are too dear.
    """
    place, held = run.place, _holds_at(run, run.place, margin, only)
    while held is False and place + 1 < len(SATURATIONS):
        place += 1
        held = _holds_at(run, place, margin, only)
        if held:
            run.place = place
            return
    if held is False:
        _multiplied(run, margin, only)
    while held is not False and place > 0:
        place -= 1
        held = _holds_at(run, place, margin, only)
        if held:
            run.place = place


def _multiplied(run: CostClimb, margin: Margin, only: tuple[int, ...] | None) -> None:
    """Tries multiples of the counts at the lowest saturation: for a trickle that is one instance still, which queries
    meet busy by chance.
    """
    lowest = dataclasses.replace(margin, saturation=SATURATIONS[-1])
    mix = least_cost(run.table, lowest, run.load, budget=run.budget, only=only)
    if mix is None:
        return
    for times in _MULTIPLES:
        values = tuple(times * n for n in mix.counts)
        if not run.beats(values) or run.try_(values):
            return


def _holds_at(run: CostClimb, place: int, margin: Margin, only: tuple[int, ...] | None) -> bool | None:
    """Whether the program's counts at one of SATURATIONS hold the load; None: there are none, or they cost too much."""
    kept = dataclasses.replace(margin, saturation=SATURATIONS[place])
    mix = least_cost(run.table, kept, run.load, budget=run.budget, only=only)
    return None if mix is None or not run.beats(mix.counts) else run.try_(mix.counts)


def of_papers(table: ClassTable) -> tuple[Values, ...]:
    """The plans of HetSev's program and heuristic, with and without the threshold."""
    from hetserve.planning.mincost.greedy import plan_greedy  # noqa: PLC0415
    from hetserve.planning.mincost.ilp import plan_ilp  # noqa: PLC0415

    asked = [
        dataclasses.replace(table.problem, saturation_threshold=s) for s in (table.problem.saturation_threshold, 1.0)
    ]
    made = [plan_ilp(asked[0]), plan_ilp(asked[1]), plan_greedy(asked[0])]
    return tuple(dict.fromkeys(table.values(one.counts) for one in made if one.feasible))


def _trimmed(run: CostClimb) -> bool:
    """Whether a cheaper neighbour of the best holds the load too."""
    best = run.best
    if best is None:
        return False
    cheaper = {*neighbours(run.table, best, None), *splits(run.table, run.table.cost(best) - 1)}
    enough = (1 - _GAIN) * run.table.objective(best)
    untried = [v for v in cheaper if not run.known(v) and run.table.objective(v) <= enough]
    near = run.judge.fluid.highest(sorted(untried), best, _PER_TRIM, run.load)
    near.sort(key=lambda v: (-run.judge.fluid(v), run.table.key(v)))
    for values in near[:_PER_TRIM]:
        if run.try_(values):
            _go_on(run, best, values)
            return True
    return False


def _go_on(run: CostClimb, before: Values, after: Values) -> None:
    """Makes a change that helped again, twice as far each time, while it helps."""
    at, step = np.array(after), np.array(after) - before
    while True:
        step, further = 2 * step, tuple((at + step).tolist())
        if not (allowed(run.table, further, run.budget) and run.beats(further) and run.try_(further)):
            return
        at = at + step


def proved(judge: Judge, proof: Proof, load: float, budget: int | None) -> tuple[CostClimb, Values | None]:
    """The last climb, and the cheapest counts found that hold the load in the trials that prove; None: none does.

    Where luck chose, the climb is made again for a little more than the load.
    """
    others, theory, best = of_papers(judge.table), Theory(judge.table), None
    for above in _ABOVE:
        run = climb(judge, theory, load * (1 + above), budget, others)
        found = [values for values in (_cheapest_proved(run, proof, load), best) if values is not None]
        best = min(found, key=run.table.key, default=None)
        if best is not None and run.best and run.table.objective(best) <= (1 + _LUCK) * run.table.objective(run.best):
            break
    for values in sorted(others, key=run.table.key):
        # Fewer draws may have refused what just holds.
        cheaper = best is None or run.table.key(values) < run.table.key(best)
        could = cheaper and judge.can_try(values, load) and allowed(run.table, values, budget)
        if could and proof.just_holds(values, load):
            run.tried[values], run.holding[values] = True, run.table.objective(values)
            return run, values
    return run, best


def _cheapest_proved(run: CostClimb, proof: Proof, load: float) -> Values | None:
    """The cheapest of a climb's counts that hold, by halving: where one fails, the cheaper ones are taken to fail.

    What cannot be tried holds by theory, and is not proved.
    """
    ranked = sorted(run.holding, key=run.table.key)

    def holds(values: Values) -> bool:
        return values in run.reckoned or proof.holds(values, load)

    failed, place, step = -1, 0, 1
    while place < len(ranked) and not holds(ranked[place]):
        failed, place = place, max(min(place + step, len(ranked) - 1), place + 1)
        step *= 2
    if place >= len(ranked):
        return None
    while place - failed > 1:
        middle = (place + failed) // 2
        failed, place = (failed, middle) if holds(ranked[middle]) else (middle, place)
    return ranked[place]
