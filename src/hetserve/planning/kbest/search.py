"""Good configurations of a space too large to look at: an integer program for each leader, then neighbours.

The leader is the present auxiliary with the largest limit. Once it is fixed, the bound is linear but for its plateau.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from hetserve.planning.configurations import Ints
from hetserve.planning.highs import FEW_NODES, INFINITY, FlowSolverError, Model, solve
from hetserve.planning.kbest.best import FINE, UNIT, Grid, Order, Ranking, Space, entries_of, none_of

_SCALE: Final = 1000 / FINE
_DOLLAR: Final = 1e-6
_ROUNDS: Final = 200
_AT_ONCE: Final = 16
"""Entries whose neighbours are looked at together."""


def found_by_program(space: Space, grid: Grid, order: Order) -> Ranking:
    """The first in order of what was found; there may be better ones."""
    search = _ProgramSearch(space, grid, order)
    best = search.of_leaders(search.with_all(none_of(space), space.least[None, :]))
    if order.reaching is None and len(best.keys):
        # On the plateau other counts have the same bound for less.
        cheapest = _ProgramSearch(space, grid, Order(1, float(best.keys[0])))
        best = search.with_all(best, cheapest.of_leaders(cheapest.order.first(best)).counts)
    return search.climbed(best)


@dataclass(frozen=True, slots=True)
class _ProgramSearch:
    space: Space
    grid: Grid
    order: Order

    def with_all(self, best: Ranking, counts: Ints) -> Ranking:
        """The first of what is known and of those counts that keep all limits."""
        space = self.space
        counts = counts[((counts >= space.least) & (counts <= space.most)).all(axis=1)]
        costs = counts @ space.prices
        within = costs <= space.budget
        if not within.any():
            return best
        both = best.and_also(entries_of(space, self.grid, counts[within], costs[within]))
        return self.order.first(both.where(np.unique(both.counts, axis=0, return_index=True)[1]))

    def of_leaders(self, best: Ranking) -> Ranking:
        """With what the program finds for each leader, and for the base alone."""
        columns = [1 + i for i in self.space.leading]
        one = np.eye(len(self.space.prices), dtype=np.int64)
        for place in range(len(columns) + 1):
            if self.space.least[columns[:place]].any():
                break
            row = self._solved(columns[:place], columns[place : place + 1], best)
            if row is not None:
                # Solvers err by a little.
                best = self.with_all(best, np.vstack([row, row - one, row + one]))
        return best

    def _solved(self, earlier: list[int], leads: list[int], best: Ranking) -> Ints | None:
        """Counts that are best as far as the solver finds them; None: no better than what is known.

        earlier: columns of auxiliaries that would lead before. leads: the column of the leader, or none.
        """
        least, most = self.space.least.copy(), self.space.most.copy()
        most[earlier], least[leads] = 0, np.maximum(least[leads], 1)
        if (most < least).any():
            return None
        model, columns = self._program(replace(self.space, least=least, most=most), leads, best)
        try:
            solved = solve(model)
        except FlowSolverError:
            return None
        return None if solved is None else np.rint(solved.values[columns]).astype(np.int64)

    def _program(self, space: Space, leads: list[int], best: Ranking) -> tuple[Model, list[int]]:
        """The program, and its columns of counts."""
        cheap, grid, prices = self.order.reaching is not None, self.grid, space.prices * _DOLLAR
        known, budget = (best.keys[0] if len(best.keys) else 0.0), space.budget
        if self.order.reaching is not None:
            known, budget = self.order.reaching, int(best.costs[0]) if len(best.keys) else budget
        model = Model(maximise=not cheap, nodes=FEW_NODES)
        bound = model.column(0.0 if cheap else 1.0, lower=max(known - 0.5, 0.0) * UNIT * _SCALE)
        limits = zip(prices.tolist(), space.least.tolist(), space.most.tolist(), strict=True)
        counts = [model.column(price if cheap else 0.0, low, high, integral=True) for price, low, high in limits]
        rates = np.zeros(len(counts))
        rates[0] = grid.base * _SCALE
        for column in leads:
            rates[1:] = grid.weights[column - 1] * _SCALE
            if np.isfinite(grid.slack[column - 1]):
                plateau = rates[0] + grid.slack[column - 1] * _SCALE
                model.row([bound, counts[0]], [1.0, -plateau], -INFINITY, 0.0)
        model.row([bound, *counts], [1.0, *-rates], -INFINITY, 0.0)
        model.row(counts, prices, -INFINITY, budget * _DOLLAR)
        _share(model, space, counts)
        return model, counts

    def climbed(self, best: Ranking) -> Ranking:
        """With the neighbours of the first, until those of all are known."""
        seen: set[bytes] = set()
        for _ in range(_ROUNDS):
            fresh = [row for row in best.counts if row.tobytes() not in seen][:_AT_ONCE]
            if not fresh:
                break
            seen.update(row.tobytes() for row in fresh)
            for near in _neighbours(self.space, np.array(fresh)):
                best = self.with_all(best, near)
        return best


def _share(model: Model, space: Space, counts: list[int]) -> None:
    """Rows of the shared resources, which new instances take."""
    if not len(space.free):
        return
    new = [model.column() for _ in counts]
    for one, count, running in zip(new, counts, space.running.tolist(), strict=True):
        model.row([one, count], [1.0, -1.0], -running, INFINITY)
    for demand, free in zip(space.demand.tolist(), space.free.tolist(), strict=True):
        model.row(new, demand, -INFINITY, free)


def _neighbours(space: Space, rows: Ints) -> Iterator[Ints]:
    """One instance more or less, another type instead of one, or as many of another as the money buys."""
    one = np.eye(len(space.prices), dtype=np.int64)
    swaps = (one[:, None, :] - one[None, :, :]).reshape(-1, len(one))
    yield (rows[:, None, :] + np.vstack([one, -one, swaps])).reshape(-1, len(one))
    fewer = np.vstack([rows, (rows[:, None, :] - one).reshape(-1, len(one))])
    bought = np.minimum((space.budget - fewer @ space.prices)[:, None] // space.prices, space.most - fewer)
    yield (fewer[:, None, :] + np.maximum(bought, 0)[:, :, None] * one).reshape(-1, len(one))
