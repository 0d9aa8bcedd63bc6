"""The best configurations of a space: small spaces are listed, large ones searched by compiled code."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from hetserve.planning.configurations import count_configurations, enumerate_configurations
from hetserve.planning.kbest.grid import Grid, grid_of
from hetserve.planning.kbest.space import Floats, Ints, Space

LISTED: Final = 100_000
"""Most configurations to list: 10 ms; loading compiled code takes 500."""

_ROUGH: Final = 300_000

NODE_LIMIT: Final = 10_000_000
TIE_NODE_LIMIT: Final = 100_000


@dataclass(frozen=True, slots=True, eq=False)
class Ranking:
    """The best configurations by key descending, cost ascending, then counts.

    counts: [entry, type], base first. size: number of configurations; approximate unless listed. tied: more have the
    last entry's bound and cost, in no settled order. proven: False if the search reached its node limit. nodes:
    visited.
    """

    counts: Ints
    costs: Ints
    keys: Floats
    size: float
    tied: bool = False
    proven: bool = True
    nodes: int = 0


def best_configurations(space: Space, top: int = 10) -> Ranking:
    """The `top` best configurations; empty if budget or limits leave none."""
    if _few(space):
        return list_all(space, top)
    return search_best(space, top, size=count_configurations(space.dimensions, space.budget, _ROUGH))


def list_all(space: Space, top: int | None = None) -> Ranking:
    """By enumeration; top: None for all."""
    if space.empty:
        return _nothing(space)
    counts, costs = enumerate_configurations(space.dimensions, space.budget)
    if len(space.free):
        new = np.maximum(counts - space.running, 0)
        fits = (new @ space.demand.T <= space.free).all(axis=1)
        counts, costs = counts[fits], costs[fits]
    size = len(counts)
    keys = grid_of(space).keys(space, counts)
    if top is not None and size > top:
        kept = np.flatnonzero(keys >= -np.partition(-keys, top - 1)[top - 1])
        counts, costs, keys = counts[kept], costs[kept], keys[kept]
    columns = [counts[:, i] for i in range(counts.shape[1] - 1, -1, -1)]
    order = np.lexsort([*columns, costs, -keys])[:top]
    return Ranking(counts[order], costs[order], keys[order], float(size))


def search_best(space: Space, top: int = 10, ceiling: float = math.inf, size: float = math.nan) -> Ranking:
    """By branch and bound.

    ceiling: highest key that counts; the first entry is the cheapest that reaches it.
    """
    from hetserve.planning.kbest.run import run  # noqa: PLC0415

    if space.empty:
        return _nothing(space)
    found = run(space, grid_of(space), top, ceiling, NODE_LIMIT, TIE_NODE_LIMIT)
    return Ranking(found.counts, found.costs, found.keys, size, found.tied, found.proven, found.nodes)


@dataclass(frozen=True, slots=True, eq=False)
class Reaching:
    """The cheapest configuration that reaches a bound; counts: None if none was found.

    proven: False if the search gave up.
    """

    counts: Ints | None
    cost: int
    proven: bool


def cheapest_reaching(space: Space, grid: Grid, qps: float) -> Reaching:
    """The cheapest configuration with a bound of at least `qps`; ties go to the highest bound."""
    target = grid.key_for(qps)
    if _few(space):
        listed = list_all(space)
        reach = np.flatnonzero(listed.keys >= target)
        if not len(reach):
            return Reaching(None, 0, proven=True)
        first = reach[np.argmin(listed.costs[reach])]  # sorted by key: highest of equal costs
        return Reaching(listed.counts[first], int(listed.costs[first]), proven=True)
    found = search_best(space, 1, target)
    if not len(found.keys) or found.keys[0] < target:
        return Reaching(None, 0, found.proven)
    cost = int(found.costs[0])
    richest = search_best(_limited(space, cost), 1)
    better = richest.proven or (len(richest.keys) > 0 and richest.keys[0] >= target)
    return Reaching(richest.counts[0] if better else found.counts[0], cost, found.proven)


def _few(space: Space) -> bool:
    """Whether listing is quicker; a rough count never is too low."""
    return count_configurations(space.dimensions, space.budget, _ROUGH // 30) <= 5 * LISTED // len(space.prices)


def _nothing(space: Space) -> Ranking:
    return Ranking(np.zeros((0, len(space.prices)), np.int64), np.zeros(0, np.int64), np.zeros(0), 0.0)


def _limited(space: Space, budget: int) -> Space:
    import dataclasses  # noqa: PLC0415

    return dataclasses.replace(space, budget=budget, most=np.minimum(space.most, budget // space.prices))
