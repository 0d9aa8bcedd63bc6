"""The best configurations of a space: up to a million are looked at one by one, of more a program finds good ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hetserve.planning.configurations import configuration_parts, count_configurations
from hetserve.planning.kbest.space import Floats, Grid, Ints, Space, grid_of

LISTED: Final = 1_000_000
"""Most configurations to look at one by one: some 0.2 s."""

_ROUGH: Final = 300_000


class Ranking(NamedTuple):
    """Configurations. counts: [entry, type], base first. costs: micro-dollars/h. keys: higher is better.

    size: number of all that there are; approximate unless `complete`. complete: whether all were looked at; else there
    may be better ones.
    """

    counts: Ints
    costs: Ints
    keys: Floats
    size: float = 0.0
    complete: bool = True

    def where(self, which: NDArray[np.bool_] | Ints) -> Ranking:
        return Ranking(self.counts[which], self.costs[which], self.keys[which])

    def and_also(self, other: Ranking) -> Ranking:
        counts, costs, keys = (np.concatenate(pair) for pair in zip(self[:3], other[:3], strict=True))
        return Ranking(counts, costs, keys)


def entries_of(space: Space, grid: Grid, counts: Ints, costs: Ints) -> Ranking:
    """Those that fit what is free of shared resources."""
    if len(space.free):
        new = np.maximum(counts - space.running, 0)
        fits = (new @ space.demand.T <= space.free).all(axis=1)
        counts, costs = counts[fits], costs[fits]
    return Ranking(counts, costs, grid.keys(space, counts))


def none_of(space: Space) -> Ranking:
    return Ranking(np.zeros((0, len(space.prices)), np.int64), np.zeros(0, np.int64), np.zeros(0))


@dataclass(frozen=True, slots=True)
class Order:
    """top: entries that are wanted; None: all. reaching: least key that counts; None: the highest are wanted.

    Key descending, cost ascending, then counts; with `reaching` cost before key.
    """

    top: int | None = None
    reaching: float | None = None

    def first(self, entries: Ranking) -> Ranking:
        if self.reaching is not None:
            entries = entries.where(entries.keys >= self.reaching)
        if self.top is not None and len(entries.keys) > self.top:
            entries = entries.where(_least(*self._by(entries), self.top))
        columns = [entries.counts[:, i] for i in range(entries.counts.shape[1] - 1, -1, -1)]
        one, other = self._by(entries)
        return entries.where(np.lexsort([*columns, other, one])[: self.top])

    def _by(self, entries: Ranking) -> tuple[Floats, Floats]:
        keys, costs = -entries.keys, entries.costs.astype(np.float64)
        return (keys, costs) if self.reaching is None else (costs, keys)


def _least(one: Floats, other: Floats, top: int) -> Ints:
    """Indices of the `top` least pairs, and of those that are equal to the last of them."""
    last = np.partition(one, top - 1)[top - 1]
    before, at = np.flatnonzero(one < last), np.flatnonzero(one == last)
    wanted = top - len(before)
    if len(at) > wanted:
        at = at[other[at] <= np.partition(other[at], wanted - 1)[wanted - 1]]
    return np.concatenate([before, at])


def best_configurations(space: Space, top: int = 10, reaching: float | None = None) -> Ranking:
    """The `top` best configurations, in `Order`; empty if budget or limits leave none. reaching: a key."""
    # A rough count never is too low.
    size = count_configurations(space.dimensions, space.budget, _ROUGH)
    if size <= LISTED:
        return list_all(space, top, reaching)
    from hetserve.planning.kbest.search import found_by_program  # noqa: PLC0415  the solver loads late

    return found_by_program(space, grid_of(space), Order(top, reaching))._replace(size=size, complete=False)


def list_all(space: Space, top: int | None = None, reaching: float | None = None) -> Ranking:
    """By looking at all; top: None for all; reaching: as of `best_configurations`."""
    best = none_of(space)
    if space.empty:
        return best
    grid, order, size = grid_of(space), Order(top, reaching), 0
    for counts, costs in configuration_parts(space.dimensions, space.budget):
        part = entries_of(space, grid, counts, costs)
        size += len(part.keys)
        best = order.first(best.and_also(order.first(part)))
    return best._replace(size=float(size))
