"""Plans without a trial: the flow program's counts, judged by what queueing theory says that they hold."""

from __future__ import annotations

from typing import Final

from hetserve.planning.flow.programs.classes import COARSE, ClassTable, Values
from hetserve.planning.flow.programs.program import (
    CEILING,
    FluidRates,
    Margin,
    Mix,
    launch_charge,
    least_cost,
    most_load,
)
from hetserve.planning.flow.search.leading import UNTRIED, allowed, cost_of, neighbours
from hetserve.planning.flow.search.waiting import saturation

_WAIT, _LATE = 0.1, 0.3
_TRIMS: Final = 6
_PER_TRIM: Final = 6
_SOLVES: Final = 8
_ENOUGH: Final = 1.1
_STEEPEST, _FLATTEST = 0.6, 0.93
SAFETY: Final = 1.05
"""Times the load that counts must hold by theory, which errs by a tenth."""


class Theory:
    """What counts (in the table's order) of one problem hold by theory; equal questions get equal answers."""

    def __init__(self, table: ClassTable) -> None:
        self.table = table.merged(COARSE)
        self.fluid = FluidRates(self.table, CEILING)
        self._known: dict[Values, float] = {}

    def hoped(self, counts: Values) -> float:
        """Saturation of counts that are in proportion to these, and hold what these could with nothing in hand."""
        found = self.fluid.mix(counts)
        return 1.0 if found is None else saturation(self.table, found, counts, scaled=True)

    def rate(self, counts: Values) -> float:
        """Queries/s; 0: they cannot serve every batch."""
        if counts not in self._known:
            found = self.fluid.mix(counts)
            self._known[counts] = 0.0 if found is None else found.rate * saturation(self.table, found, counts)
        return self._known[counts]


def untried_throughput(table: ClassTable, budget: int) -> Mix | None:
    """The program's mix of the most load under the margin that does best alone."""
    return most_load(table, UNTRIED, budget=budget) or most_load(table, CEILING, budget=budget)


def untried_rate(table: ClassTable, counts: Values) -> float:
    """Queries/s that these counts hold by theory; 0: they cannot serve every batch."""
    return Theory(table).rate(counts) / SAFETY


def untried_cost(table: ClassTable, load: float, budget: int | None, fewest: Values) -> Values | None:
    """The cheapest counts found that hold the load by theory, else those with most in hand; None: none.

    fewest: counts of a mix with nothing in hand: what suits these is near, as lower saturations take more instances.
    """
    search = _Search(table, load, budget)
    found = search.descended(fewest)
    if found is None or not search.holds(found):
        return found
    for _ in range(_TRIMS):
        less = search.trimmed(found)
        if less is None:
            break
        found = less
    return found


class _Search:
    def __init__(self, table: ClassTable, load: float, budget: int | None) -> None:
        self.theory = Theory(table)
        self.table, self.load, self.budget = self.theory.table, load, budget
        self.charges = [launch_charge(option, table.problem.launch_weight) for option in table.types]

    def key(self, values: Values) -> tuple[int, int, Values]:
        """Total order: cost and launch charges, fewest instances, then the counts."""
        new = (max(n - option.running, 0) for option, n in zip(self.table.types, values, strict=True))
        charged = sum(c * n for c, n in zip(self.charges, new, strict=True))
        return cost_of(self.table, values) + charged, sum(values), values

    def holds(self, values: Values) -> bool:
        return self.theory.rate(values) >= SAFETY * self.load

    def descended(self, fewest: Values) -> Values | None:
        """The program's counts at the highest saturation found at which they hold the load, or at the lowest possible."""
        share, found, best = self.theory.hoped(fewest), None, None
        for _ in range(_SOLVES):
            counts = self._at(share)
            if counts is None:
                if found is not None:
                    break
                share = (share + 1) / 2
                continue
            found = counts
            ratio = self.theory.rate(counts) / (SAFETY * self.load)
            if ratio >= 1:
                if best is not None and self.key(best) <= self.key(counts):
                    return best
                best = counts
                if ratio < _ENOUGH or share >= 1:
                    return best
                share = min(share * ratio, 1.0)
            elif best is not None:
                return best
            else:
                share *= max(_FLATTEST * ratio, _STEEPEST)
        return best or found

    def _at(self, share: float) -> Values | None:
        mix = least_cost(self.table, Margin(share, _WAIT, _LATE), self.load, budget=self.budget)
        return None if mix is None else mix.counts

    def trimmed(self, best: Values) -> Values | None:
        """A cheaper neighbour that holds the load too; None: none was found."""
        cheaper = [v for v in neighbours(self.table, best, None) if self.key(v) < self.key(best) and allowed(self.table, v, self.budget)]
        near = self.theory.fluid.highest(sorted(cheaper), best, _PER_TRIM, SAFETY * self.load)
        near.sort(key=self.key)
        return next((v for v in near if self.holds(v)), None)
