"""All configurations within a budget, counted or enumerated without a Python loop."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

_GRID = 1_000_000
_ROWS = 1 << 16


@dataclass(frozen=True, slots=True)
class Dimension:
    """One type: price of an instance (micro-dollars/h), least and most instances."""

    price: int
    least: int = 0
    most: int | None = None


def count_configurations(dimensions: tuple[Dimension, ...], budget: int, grid: int = _GRID) -> float:
    """Number of configurations that cost at most `budget`.

    Exact up to 2**53 if the budget has at most `grid` steps of the prices' common divisor; else prices are rounded
    down, which counts slightly too many.
    """
    left = budget - sum(d.price * d.least for d in dimensions)
    if left < 0 or any(d.most is not None and d.most < d.least for d in dimensions):
        return 0.0
    unit = max(math.gcd(*(d.price for d in dimensions)), math.ceil(left / grid), 1)
    ways = np.zeros(left // unit + 1)
    ways[0] = 1.0
    for dimension in dimensions:
        most = left // dimension.price
        if dimension.most is not None:
            most = min(most, dimension.most - dimension.least)
        ways = _add_type(ways, max(dimension.price // unit, 1), most)
    return float(ways.sum())


def _add_type(ways: NDArray[np.float64], price: int, most: int) -> NDArray[np.float64]:
    if most <= 0 or price >= len(ways):
        return ways
    rows = -(-len(ways) // price)
    table = np.zeros(rows * price)
    table[: len(ways)] = ways
    table = np.cumsum(table.reshape(rows, price), axis=0)
    if most + 1 < rows:
        table[most + 1 :] -= table[: -(most + 1)].copy()
    return np.asarray(table.reshape(-1)[: len(ways)])


def enumerate_configurations(dimensions: tuple[Dimension, ...], budget: int) -> tuple[Ints, Ints]:
    """Counts [configuration, dimension] and costs [configuration], in lexicographic order."""
    parts = list(configuration_parts(dimensions, budget))
    none = np.zeros((0, len(dimensions)), np.int64), np.zeros(0, np.int64)
    counts, costs = zip(*(parts or [none]), strict=True)
    return np.concatenate(counts), np.concatenate(costs)


def configuration_parts(dimensions: tuple[Dimension, ...], budget: int) -> Iterator[tuple[Ints, Ints]]:
    """`enumerate_configurations` in parts of at most _ROWS, unless a single one has more successors."""
    reserves = [sum(d.price * d.least for d in dimensions[i + 1 :]) for i in range(len(dimensions))]
    waiting = [(np.zeros((1, 0), dtype=np.int64), np.array([budget], dtype=np.int64))]
    while waiting:
        counts, left = waiting.pop()
        if counts.shape[1] == len(dimensions):
            yield counts, budget - left
            continue
        dimension = dimensions[counts.shape[1]]
        most = (left - reserves[counts.shape[1]]) // dimension.price
        if dimension.most is not None:
            most = np.minimum(most, dimension.most)
        choices = np.maximum(most - dimension.least + 1, 0)
        ends = np.cumsum(choices)
        if ends[-1] > _ROWS and len(left) > 1:
            half = min(max(int(np.searchsorted(ends, ends[-1] // 2)), 1), len(left) - 1)
            waiting += [(counts[half:], left[half:]), (counts[:half], left[:half])]
        elif ends[-1]:
            column = np.arange(int(ends[-1]), dtype=np.int64) - np.repeat(ends - choices, choices) + dimension.least
            counts = np.column_stack([np.repeat(counts, choices, axis=0), column])
            waiting.append((counts, np.repeat(left, choices) - column * dimension.price))
