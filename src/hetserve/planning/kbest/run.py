"""From a space to the compiled search and back; importing this loads the compiler."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hetserve.planning.kbest.grid import Grid
from hetserve.planning.kbest.parts import Frontier, search
from hetserve.planning.kbest.search import FOUND, LIMIT, NODES, TIED_COST, Incumbents, Rows, Walk
from hetserve.planning.kbest.space import Floats, Ints, Space
from hetserve.planning.kbest.tables import Leaders, by_column, lay_out, merge_equals
from hetserve.planning.kbest.ties import first_by_counts


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    counts: Ints
    costs: Ints
    keys: Floats
    tied: bool
    proven: bool
    nodes: int


def run(space: Space, grid: Grid, top: int, ceiling: float, limit: int, tie_limit: int) -> Found:
    """Searches a space. limit, tie_limit: most nodes of the search and of the third key."""
    unit = int(np.gcd.reduce(space.prices))
    prices = space.prices // unit
    best = _fresh(top, len(prices), space.budget // unit, int(prices[0]), grid.base, ceiling, limit)
    order = np.array(space.leading, dtype=np.int64)
    plain = lay_out(prices, space.least, space.most, order, grid.weights, grid.slack)
    merged, equals = merge_equals(plain)
    rows = Rows(np.ascontiguousarray(space.demand), space.free, space.running)  # C order, or it compiles again
    frontier = Frontier(
        np.zeros((len(order), 2), np.int64), np.zeros((len(order), 2), np.int64), np.full((len(order), 2), -1.0)
    )
    # Merge equal types only if none shares a resource.
    walk = _memory(space)
    search(best, plain if len(rows.free) else merged, equals, rows, space.least, space.most, frontier, walk)
    seen = frontier.next_u + np.array([1, -1])
    found, nodes = int(best.numbers[FOUND]), int(best.numbers[NODES])
    proven = nodes <= limit
    counts, costs, keys = best.counts[:found], best.costs[:found], best.keys[:found]
    tied = False
    if found == top and best.rates[2] == keys[-1] and best.numbers[TIED_COST] == costs[-1]:
        settled, more = _settle(best, plain, rows, space, seen, tie_limit, walk)
        tied = settled is None
        counts = counts if settled is None else settled
        nodes += more
    columns = [counts[:, i] for i in range(counts.shape[1] - 1, -1, -1)]
    by_rank = np.lexsort([*columns, costs, -keys])
    return Found(counts[by_rank], costs[by_rank] * unit, keys[by_rank], tied, proven, nodes)


def _fresh(top: int, columns: int, budget: int, base_price: int, base: float, ceiling: float, limit: int) -> Incumbents:
    return Incumbents(
        keys=np.full(top, -1.0),
        costs=np.zeros(top, np.int64),
        counts=np.zeros((top, columns), np.int64),
        numbers=np.array([0, 0, limit, -1, budget, base_price], dtype=np.int64),
        rates=np.array([base, ceiling, -1.0]),
    )


def _settle(
    best: Incumbents, table: Leaders, rows: Rows, space: Space, seen: Ints, limit: int, walk: Walk
) -> tuple[Ints | None, int]:
    """Counts with the first of all ties in place of the last entry's; None if not settled in time."""
    key, cost = best.keys[-1], int(best.costs[-1])
    above = (best.keys > key) | (best.costs < cost)
    equals = int((~above).sum())
    other = _fresh(equals, best.counts.shape[1], cost, int(best.numbers[5]), best.rates[0], best.rates[1], limit)
    found = first_by_counts(other, table, by_column(table), rows, space.least, space.most, seen, key, walk)
    nodes = int(other.numbers[NODES])
    if nodes > other.numbers[LIMIT] or found < equals:
        return None, nodes
    return np.concatenate([best.counts[above], other.counts]), nodes


def _memory(space: Space) -> Walk:
    columns = len(space.prices)
    integers = np.zeros((6, columns), np.int64)
    left, now, turn, most, taken, rest = integers
    return Walk(
        left,
        np.zeros(columns),
        np.zeros((columns, len(space.free)), np.int64),
        now,
        turn,
        most,
        np.zeros(columns, np.bool_),
        taken,
        rest,
        np.zeros(columns, np.int64),
    )
