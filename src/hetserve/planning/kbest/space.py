"""The configurations to rank, as arrays: one base and its auxiliaries within a budget."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hetserve.planning.configurations import Dimension
from hetserve.planning.problem import Pool, TypeOption
from hetserve.planning.rates import Rates

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


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
