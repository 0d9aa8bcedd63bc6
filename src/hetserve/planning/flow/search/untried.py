"""Plans without a trial: the flow program's counts, judged by what queueing theory says that they hold."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from hetserve.planning.flow.programs.classes import COARSE, ClassTable, Values
from hetserve.planning.flow.programs.program import (
    CEILING,
    FluidRates,
    Margin,
    least_cost,
)
from hetserve.planning.flow.search.leading import allowed, neighbours
from hetserve.planning.flow.search.waiting import saturation

MARGINS: Final = (Margin(wait=0.1, late=0.3), Margin(late=0.6), Margin(most_late=1.0))
"""The second where no type leaves time to wait, the third where most that may be late are late without a wait."""
_SOLVES: Final = 8
_MUCH: Final = 1.1
"""Times the load: counts that hold so much more are too many."""
_STEEPEST, _BELOW = 0.6, 0.93
_LESS: Final = 0.999
"""Of the saturation at which counts carry the load by their fluid rate: no program gives them again."""
_SAVES: Final = 0.95
"""Of the programs' cost: multiples of the fewest counts must cost less."""
_TRIMS: Final = 5
_PER_TRIM: Final = 6
_MOST_NEAR: Final = 12
_ALIKE: Final = 0.97
"""Of a neighbour's saturation: counts whose fluid rate is too low for it are not looked at."""


class Theory:
    """What counts (in the table's order) of one problem hold by theory; equal questions get equal answers."""

    def __init__(self, table: ClassTable) -> None:
        self.table = table.merged(COARSE)
        self.fluid = FluidRates(self.table, CEILING)
        self._known: dict[Values, float] = {}

    def rate(self, counts: Values) -> float:
        """Queries/s; 0: they cannot serve every batch."""
        if counts not in self._known:
            found = self.fluid.mix(counts)
            self._known[counts] = 0.0 if found is None else found.rate * saturation(self.table, found, counts)
        return self._known[counts]

    def hoped(self, counts: Values) -> float:
        """The saturation of counts in proportion to these that hold what these could with nothing in hand."""
        found = self.fluid.mix(counts)
        return 1.0 if found is None else saturation(self.table, found, counts, scaled=True)


def untried_cost(table: ClassTable, load: float, budget: int | None, fewest: Values) -> tuple[Values, float] | None:
    """The cheapest counts found that hold the load by theory, else those that hold the most, and queries/s; None: none.

    fewest: counts of a mix with nothing in hand, perhaps of an easier table: the program's with something in hand are
    mostly near their multiples.
    """
    search = _Search(table, load, budget)
    found = search.by_programs(fewest)
    if found is None:
        return None
    for _ in range(_TRIMS if search.holds(found) else 0):
        less = search.trimmed(found)
        if less is None:
            break
        found = less
    return found, search.theory.rate(found)


class _Search:
    def __init__(self, table: ClassTable, load: float, budget: int | None) -> None:
        self.theory = Theory(table)
        self.table, self.load, self.budget = self.theory.table, load, budget

    def holds(self, values: Values) -> bool:
        return self.theory.rate(values) >= self.load

    def by_programs(self, fewest: Values) -> Values | None:
        """The best of the programs' counts."""
        if self.theory.fluid(fewest) < self.load:
            mix = least_cost(self.table, CEILING, self.load, budget=self.budget)
            fewest = fewest if mix is None else mix.counts
        share = self.theory.hoped(fewest)
        multiple = tuple(math.ceil(n / share) for n in fewest)
        seen: list[Values] = []
        for margin in MARGINS:
            seen = seen or list(self._programs(margin, share))
        best = min(filter(self.holds, seen), key=self.table.key, default=None)
        much_cheaper = best is None or self.table.key(multiple)[0] < _SAVES * self.table.key(best)[0]
        if much_cheaper and allowed(self.table, multiple, self.budget) and self.holds(multiple):
            return multiple
        return best or min(seen, key=lambda values: (-self.theory.rate(values), self.table.key(values)), default=None)

    def _programs(self, margin: Margin, share: float) -> Iterator[Values]:
        """Counts at saturations that fall until they hold the load, or rise while they hold much more."""
        none, rises = 0.0, False
        for _ in range(_SOLVES):
            mix = least_cost(self.table, replace(margin, saturation=share), self.load, budget=self.budget)
            if mix is None:
                none, share = share, (share + 1) / 2
                continue
            yield mix.counts
            held, fluid = self.theory.rate(mix.counts) / self.load, self.theory.fluid(mix.counts) / self.load
            if (held < 1 and rises) or 1 <= held < _MUCH or (held >= 1 and share * fluid >= held):
                return
            rises = held >= 1
            lower = min(share * max(_BELOW * held, _STEEPEST), _LESS / max(fluid, 1.0))
            share = min(share * held, 1.0) if rises else max(lower, (share + none) / 2)

    def trimmed(self, best: Values) -> Values | None:
        """A cheaper neighbour that holds the load too; None: none was found."""
        table, around = self.table, neighbours(self.table, best, None)
        cheaper = [v for v in around if table.key(v) < table.key(best) and allowed(table, v, self.budget)]
        enough = _ALIKE * self.load * self.theory.fluid(best) / self.theory.rate(best)
        near = self.theory.fluid.highest(sorted(cheaper), best, _MOST_NEAR, enough)
        return next(filter(self.holds, sorted(near, key=table.key)[:_PER_TRIM]), None)
