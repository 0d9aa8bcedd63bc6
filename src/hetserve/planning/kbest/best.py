"""The best configurations of a space: up to a million are looked at one by one, of more a program finds good ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hetserve.planning.configurations import Dimension, Ints, configuration_parts, count_configurations
from hetserve.planning.problem import Pool, TypeOption
from hetserve.planning.rates import Rates

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


Floats = NDArray[np.float64]

FINE: Final = 2.0**50
UNIT: Final = 2.0**14
"""Fine steps per step of a key."""


@dataclass(frozen=True, slots=True, eq=False)
class Space:
    """Input of the ranking; column 0 is the base, the others as in `Rates`.

    prices, least, most: per column, micro-dollars/h and instances. q_base: Q_b. limits, f, t: per auxiliary. q_aux[i,
    j]: rate of auxiliary j at the limit of i. demand [resource, column], free [resource]: of shared resources, per
    *new* instance. running: per column.
    """

    budget: int
    prices: Ints
    least: Ints
    most: Ints
    q_base: float
    limits: Ints
    f: Floats
    t: Floats
    q_aux: Floats
    demand: Ints
    free: Ints
    running: Ints

    @property
    def dimensions(self) -> tuple[Dimension, ...]:
        rows = zip(self.prices.tolist(), self.least.tolist(), self.most.tolist(), strict=True)
        return tuple(Dimension(price, least, most) for price, least, most in rows)

    @property
    def leading(self) -> list[int]:
        """Auxiliaries in their order of leading: the largest limit first, ties by column."""
        return sorted(range(len(self.limits)), key=lambda i: (-int(self.limits[i]), i))

    @property
    def empty(self) -> bool:
        return bool((self.most < self.least).any()) or int((self.prices * self.least).sum()) > self.budget


def space_of(rates: Rates, budget: int, pools: Sequence[Pool] = ()) -> Space:
    """Space of a base, at least one instance of it, and its auxiliaries.

    A resource of one type alone becomes a limit of that type.
    """
    columns = (rates.base, *(aux.option for aux in rates.auxiliaries))
    prices = np.array([option.price for option in columns], dtype=np.int64)
    least = np.array([option.min_instances for option in columns], dtype=np.int64)
    least[0] = max(least[0], 1)
    most = budget // prices
    for i, option in enumerate(columns):
        if option.max_instances is not None:
            most[i] = min(most[i], option.max_instances)
    running = np.array([option.running for option in columns], dtype=np.int64)
    demand, free = _shared(columns, pools, most)
    size = len(rates.auxiliaries)
    return Space(
        budget=budget,
        prices=prices,
        least=least,
        most=most,
        q_base=float(rates.q_base),
        limits=np.array([aux.limit for aux in rates.auxiliaries], dtype=np.int64),
        f=np.array([aux.f for aux in rates.auxiliaries], dtype=np.float64),
        t=np.array([aux.t for aux in rates.auxiliaries], dtype=np.float64),
        q_aux=np.array(rates.q_aux, dtype=np.float64).reshape(size, size),
        demand=demand,
        free=free,
        running=running,
    )


def _shared(columns: Sequence[TypeOption], pools: Sequence[Pool], most: Ints) -> tuple[Ints, Ints]:
    """Demand and free amounts of shared resources; lowers `most` for resources of one column."""
    rows: list[list[int]] = []
    free: list[int] = []
    for pool in pools:
        for resource, amount in enumerate(pool.free.all):
            row = [o.demand.all[resource] if o.pool == pool.name else 0 for o in columns]
            left = max(amount, 0)
            users = [i for i, need in enumerate(row) if need]
            if len(users) == 1:
                i = users[0]
                most[i] = min(most[i], columns[i].running + left // row[i])
            elif users:
                rows.append(row)
                free.append(left)
    shape = (len(rows), len(columns))
    return np.array(rows, dtype=np.int64).reshape(shape), np.array(free, dtype=np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Grid:
    """Rates in fine steps. If auxiliary i leads, the bound is u base + min(sum of v_j weights[i, j], u slack[i]).

    That is min(u Q_b + (t/f) A, u Q_b / (1 - t)). Bounds are whole numbers: sums are exact, and equal bounds compare
    equal. Rates are multiples of 2**-50 of an upper limit of all bounds; two bounds tie if they round to the same
    multiple of 2**-36 (1.5e-11) of it. slack: infinite without a plateau. scale: queries/s of a fine step.
    """

    base: float
    weights: Floats
    slack: Floats
    scale: float

    def keys(self, space: Space, counts: Ints) -> Floats:
        """Key [configuration]: higher is better; equal bounds have equal keys."""
        u = counts[:, 0].astype(np.float64)
        if counts.shape[1] == 1:
            return key_of(u * self.base)
        order = np.array(space.leading)
        present = counts[:, 1:] > 0
        leader = order[np.argmax(present[:, order], axis=1)]
        served = np.empty(len(counts))
        for i in range(len(order)):
            rows = leader == i
            served[rows] = counts[rows, 1:] @ self.weights[i]
        # u is at least 1: an infinite slack stays infinite.
        served = np.where(present.any(axis=1), np.minimum(served, u * self.slack[leader]), 0.0)
        return key_of(u * self.base + served)

    def key_for(self, qps: float) -> float:
        """Lowest key of bounds of at least `qps`."""
        return float(np.ceil(qps / self.scale / UNIT))


def key_of(fine: Floats) -> Floats:
    return np.asarray(np.floor((fine + UNIT / 2) / UNIT))


def grid_of(space: Space) -> Grid:
    useful = (space.f > 0) & (space.t > 0)
    ratio = np.divide(space.t, space.f, out=np.zeros_like(space.t), where=useful)
    weights = space.q_aux * ratio[:, None]
    below = useful & (space.t < 1)
    slack = np.where(useful, np.inf, 0.0)
    slack[below] = space.q_base * space.t[below] / (1 - space.t[below])
    ceiling = _ceiling(space, weights, slack)
    step = FINE / ceiling
    return Grid(
        base=float(np.round(space.q_base * step)),
        weights=np.minimum(np.round(weights * step), FINE),
        slack=np.where(slack * step > FINE, np.inf, np.round(np.where(np.isinf(slack), 0, slack) * step)),
        scale=ceiling / FINE,
    )


def _ceiling(space: Space, weights: Floats, slack: Floats) -> float:
    """Upper limit of all bounds: by money (fractional knapsack), or by the base that money buys."""
    bases = float(space.most[0])
    highest = bases * space.q_base
    spend = (space.most * space.prices).astype(np.float64)
    per_price = np.empty(len(space.prices))
    per_price[0] = space.q_base / space.prices[0]
    for i in range(len(space.limits)):
        allowed = np.concatenate([[True], space.limits <= space.limits[i]])
        per_price[1:] = weights[i] / space.prices[1:]
        order = np.argsort(-np.where(allowed, per_price, 0.0), kind="stable")
        money = np.minimum(np.cumsum(spend[order]), float(space.budget))
        share = np.diff(money, prepend=0.0)
        by_money = float((share * np.where(allowed, per_price, 0.0)[order]).sum())
        highest = max(highest, min(by_money, bases * (space.q_base + float(slack[i]))))
    return highest
