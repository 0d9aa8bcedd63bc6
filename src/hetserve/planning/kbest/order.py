"""The order of configurations: by bound, then by cost, then by counts; or the cheapest that reach a bound."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from hetserve.planning.kbest.grid import Grid
from hetserve.planning.kbest.space import Bools, Floats, Ints, Space


class Entries(NamedTuple):
    """Configurations. counts: [entry, type], base first. costs: micro-dollars/h. keys: higher is better."""

    counts: Ints
    costs: Ints
    keys: Floats

    def where(self, which: Bools | Ints) -> Entries:
        return Entries(self.counts[which], self.costs[which], self.keys[which])

    def and_also(self, other: Entries) -> Entries:
        return Entries(*(np.concatenate(pair) for pair in zip(self, other, strict=True)))


def entries_of(space: Space, grid: Grid, counts: Ints, costs: Ints) -> Entries:
    """Those that fit what is free of shared resources."""
    if len(space.free):
        new = np.maximum(counts - space.running, 0)
        fits = (new @ space.demand.T <= space.free).all(axis=1)
        counts, costs = counts[fits], costs[fits]
    return Entries(counts, costs, grid.keys(space, counts))


def none_of(space: Space) -> Entries:
    return Entries(np.zeros((0, len(space.prices)), np.int64), np.zeros(0, np.int64), np.zeros(0))


@dataclass(frozen=True, slots=True)
class Order:
    """top: entries that are wanted; None: all. reaching: least key that counts; None: the highest are wanted.

    Key descending, cost ascending, then counts; with `reaching` cost before key.
    """

    top: int | None = None
    reaching: float | None = None

    def first(self, entries: Entries) -> Entries:
        if self.reaching is not None:
            entries = entries.where(entries.keys >= self.reaching)
        if self.top is not None and len(entries.keys) > self.top:
            entries = entries.where(_least(*self._by(entries), self.top))
        columns = [entries.counts[:, i] for i in range(entries.counts.shape[1] - 1, -1, -1)]
        one, other = self._by(entries)
        return entries.where(np.lexsort([*columns, other, one])[: self.top])

    def _by(self, entries: Entries) -> tuple[Floats, Floats]:
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
