"""Good configurations of a space too large to look at: an integer program for each leader, then neighbours.

The leader is the present auxiliary with the largest limit; once it is fixed, the bound is linear but for its plateau.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from hetserve.planning.highs import FEW_NODES, INFINITY, FlowSolverError, Model, solve
from hetserve.planning.kbest.grid import FINE, UNIT, Grid
from hetserve.planning.kbest.order import Entries, Order, entries_of, none_of
from hetserve.planning.kbest.space import Ints, Space

_SCALE: Final = 1000 / FINE
_DOLLAR: Final = 1e-6
_ROUNDS: Final = 200
_AT_ONCE: Final = 16
"""Entries whose neighbours are looked at together."""


def found_by_program(space: Space, grid: Grid, order: Order) -> Entries:
    """The first in order of what was found; there may be better ones."""
    best = order.first(_unique(_entries(space, grid, np.vstack([space.least, _base_alone(space)]))))
    best = _of_leaders(space, grid, order, best)
    if order.reaching is None and len(best.keys):
        # On the plateau other counts have the same bound for less.
        alike = Order(1, float(best.keys[0]))
        cheaper = _of_leaders(space, grid, alike, alike.first(best))
        best = order.first(_unique(best.and_also(cheaper)))
    return _climbed(space, grid, order, best)


def _of_leaders(space: Space, grid: Grid, order: Order, best: Entries) -> Entries:
    """With what the program finds for each leader."""
    for place, leader in enumerate(space.leading):
        earlier = [1 + i for i in space.leading[:place]]
        if space.most[1 + leader] and not space.least[earlier].any():
            row = _solved(space, grid, order, leader, earlier, best)
            if row is not None:
                one = np.eye(len(row), dtype=np.int64)
                near = np.vstack([row, row - one, row + one])  # solvers err by a little
                best = order.first(_unique(best.and_also(_entries(space, grid, near))))
    return best


def _base_alone(space: Space) -> Ints:
    row = space.least.copy()
    row[0] = min(int(space.most[0]), row[0] + (space.budget - int(row @ space.prices)) // int(space.prices[0]))
    return row


def _solved(space: Space, grid: Grid, order: Order, leader: int, earlier: list[int], best: Entries) -> Ints | None:
    """The best counts with this leader, as far as the solver finds them; None: no better than what is known."""
    cheap = order.reaching is not None
    model = Model(maximise=not cheap, nodes=FEW_NODES)
    known, budget = (best.keys[0] if len(best.keys) else 0.0), space.budget
    if order.reaching is not None:
        known, budget = order.reaching, min(budget, int(best.costs[0]) if len(best.keys) else budget)
    bound = model.column(0.0 if cheap else 1.0, lower=max(known - 0.5, 0.0) * UNIT * _SCALE)
    least, most = space.least.copy(), space.most.copy()
    most[earlier], least[1 + leader] = 0, max(least[1 + leader], 1)
    prices = space.prices * _DOLLAR
    counts = [
        model.column(price if cheap else 0.0, low, high, integral=True)
        for price, low, high in zip(prices.tolist(), least.tolist(), most.tolist(), strict=True)
    ]
    rates = np.concatenate([[grid.base], grid.weights[leader]]) * _SCALE
    model.row([bound, *counts], [1.0, *-rates], -INFINITY, 0.0)
    plateau = (grid.base + grid.slack[leader]) * _SCALE
    if np.isfinite(plateau):
        model.row([bound, counts[0]], [1.0, -plateau], -INFINITY, 0.0)
    model.row(counts, prices, -INFINITY, budget * _DOLLAR)
    _share(model, space, counts)
    try:
        solved = solve(model)
    except FlowSolverError:
        return None
    return None if solved is None else np.rint(solved.values[counts]).astype(np.int64)


def _share(model: Model, space: Space, counts: list[int]) -> None:
    """Rows of the shared resources, which new instances take."""
    if not len(space.free):
        return
    new = [model.column() for _ in counts]
    for one, count, running in zip(new, counts, space.running.tolist(), strict=True):
        model.row([one, count], [1.0, -1.0], -running, INFINITY)
    for demand, free in zip(space.demand.tolist(), space.free.tolist(), strict=True):
        model.row(new, demand, -INFINITY, free)


def _climbed(space: Space, grid: Grid, order: Order, best: Entries) -> Entries:
    """With the neighbours of the first, until those of all are known."""
    seen: set[bytes] = set()
    for _ in range(_ROUNDS):
        fresh = [row for row in best.counts if row.tobytes() not in seen][:_AT_ONCE]
        if not fresh:
            break
        seen.update(row.tobytes() for row in fresh)
        for near in _neighbours(space, np.array(fresh)):
            best = order.first(_unique(best.and_also(_entries(space, grid, near))))
    return best


def _neighbours(space: Space, rows: Ints) -> Iterator[Ints]:
    """One instance more or less, another type instead of one, or as many of another as the money buys."""
    one = np.eye(len(space.prices), dtype=np.int64)
    swaps = (one[:, None, :] - one[None, :, :]).reshape(-1, len(one))
    yield (rows[:, None, :] + np.vstack([one, -one, swaps])).reshape(-1, len(one))
    fewer = np.vstack([rows, (rows[:, None, :] - one).reshape(-1, len(one))])
    bought = np.minimum((space.budget - fewer @ space.prices)[:, None] // space.prices, space.most - fewer)
    yield (fewer[:, None, :] + np.maximum(bought, 0)[:, :, None] * one).reshape(-1, len(one))


def _entries(space: Space, grid: Grid, counts: Ints) -> Entries:
    """Those within the limits."""
    counts = counts[((counts >= space.least) & (counts <= space.most)).all(axis=1)]
    costs = counts @ space.prices
    within = costs <= space.budget
    return entries_of(space, grid, counts[within], costs[within]) if within.any() else none_of(space)


def _unique(entries: Entries) -> Entries:
    return entries.where(np.unique(entries.counts, axis=0, return_index=True)[1])
