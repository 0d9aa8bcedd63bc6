"""Independent oracle of the k best configurations: dynamic programming over every cost.

Shares with the search only the grid of rates.
"""

from __future__ import annotations

import numpy as np

from hetserve.compiled import njit
from hetserve.planning.kbest import Grid, Space
from hetserve.planning.kbest.grid import UNIT
from hetserve.planning.kbest.space import Floats, Ints


def best_by_dp(space: Space, grid: Grid, top: int = 10) -> tuple[Floats, Ints]:
    """Keys and costs of the `top` best of a space without minima and shared resources."""
    unit = int(np.gcd.reduce(space.prices))
    cells = space.budget // unit + 1
    prices = space.prices // unit
    found: list[tuple[float, int]] = []
    order = space.leading
    for rank, leader in enumerate(order):
        if space.most[1 + leader] < 1:
            continue
        table = np.full((cells, top), -1.0)
        if prices[1 + leader] < cells:
            table[prices[1 + leader], 0] = grid.weights[leader, leader]
        for j in order[rank:]:
            most = int(space.most[1 + j]) - (j == leader)
            table = _with_type(table, int(prices[1 + j]), float(grid.weights[leader, j]), most)
        keys, costs = _combine(table, int(prices[0]), int(space.most[0]), grid.base, float(grid.slack[leader]))
        found += zip((-keys).tolist(), costs.tolist(), strict=True)
    for u in range(1, int(space.most[0]) + 1):
        found.append((-float(np.floor((u * grid.base + UNIT / 2) / UNIT)), u * int(prices[0])))
    best = sorted(entry for entry in found if entry[0] <= 0)[:top]
    return np.array([-key for key, _ in best]), np.array([cost * unit for _, cost in best], np.int64)


@njit
def _with_type(table: Floats, price: int, weight: float, most: int) -> Floats:
    """The k highest rates at each cost with up to `most` instances of one more type."""
    cells, top = table.shape
    result = table.copy()
    if most * price >= cells - price:
        for cost in range(price, cells):  # one more than at a price less
            for i in range(top):
                if result[cost - price, i] < 0.0:
                    break
                _enter(result[cost], result[cost - price, i] + weight)
        return result
    for cost in range(price, cells):
        for n in range(1, min(most, cost // price) + 1):
            for i in range(top):
                if table[cost - n * price, i] < 0.0:
                    break
                _enter(result[cost], table[cost - n * price, i] + n * weight)
    return result


@njit
def _enter(row: Floats, value: float) -> None:
    at = len(row)
    while at > 0 and row[at - 1] < value:
        at -= 1
    if at < len(row):
        for i in range(len(row) - 1, at, -1):
            row[i] = row[i - 1]
        row[at] = value


@njit
def _combine(table: Floats, base_price: int, most: int, base: float, slack: float) -> tuple[Floats, Ints]:
    """The k best (key, cost) of one leader; a key of -1: none."""
    cells, top = table.shape
    keys, costs = np.full(top, -1.0), np.zeros(top, np.int64)
    for u in range(1, most + 1):
        for cost in range(cells - u * base_price):
            for i in range(top):
                if table[cost, i] < 0.0:
                    break
                key = np.floor((u * base + min(table[cost, i], u * slack) + UNIT / 2) / UNIT)
                total = cost + u * base_price
                if key < keys[-1] or (key == keys[-1] and total >= costs[-1]):
                    break
                at = top - 1
                while at > 0 and (keys[at - 1] < key or (keys[at - 1] == key and costs[at - 1] > total)):
                    keys[at], costs[at] = keys[at - 1], costs[at - 1]
                    at -= 1
                keys[at], costs[at] = key, total
    return keys, costs
