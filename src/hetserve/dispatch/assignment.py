"""Rectangular linear sum assignment by shortest augmenting paths, compiled, in memory that the caller owns.

The algorithm of Jonker and Volgenant as simplified by Crouse (2016), which scipy.optimize.linear_sum_assignment
uses too. What differs makes it 3 to 5 times as fast on the matrices of dispatching: nothing is allocated, rows start
at their cheapest column where it is free, and each step passes over all columns in three loops that vectorise. For
that, distances are compared by their bits: non-negative doubles order like unsigned integers, and the -infinity that
marks a scanned column orders last.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hetserve.compiled import njit, njit_uncounted
from hetserve.dispatch.kernel import Floats, Integers

Bits = NDArray[np.uint64]


class Work(NamedTuple):
    """Memory of one solve of `rows` x `columns`, rows <= columns; row_of and column_of hold the answer.

    u: duals by row; v: duals by column; distance: by column, -infinity once scanned; lengths: distance of the
    k-th scanned column; parent: by column, the row before it on its path; scanned: the k-th scanned column;
    waiting: rows whose cheapest column was taken.
    """

    u: Floats
    v: Floats
    distance: Floats
    lengths: Floats
    row_of: Integers
    column_of: Integers
    parent: Integers
    scanned: Integers
    waiting: Integers


def work_sizes(rows: int, columns: int) -> tuple[int, int]:
    """(floats, integers) that a solve needs."""
    return rows + 3 * columns, 2 * rows + 3 * columns


@njit
def carve(rows: int, columns: int, floats: Floats, integers: Integers) -> Work:
    """Work arrays out of memory of `work_sizes`."""
    a, b, c = rows + columns, rows + 2 * columns, rows + 3 * columns
    return Work(
        floats[:rows],
        floats[rows:a],
        floats[a:b],
        floats[b:c],
        integers[rows:a],
        integers[:rows],
        integers[a:b],
        integers[b:c],
        integers[c : c + rows],
    )


@njit_uncounted
def assign(cost: Floats, work: Work) -> None:
    """Assign every row of a cost matrix, rows <= columns, to its own column at least total cost.

    cost: finite, not negative. work.column_of[row] and work.row_of[column] (-1: none) hold the result.
    """
    work.v[:] = 0.0
    work.row_of[:] = -1
    bits, waiting = work.distance.view(np.uint64), 0
    for row in range(cost.shape[0]):
        for column in range(cost.shape[1]):  # a slice assigned to a slice would be copied first
            work.distance[column] = cost[row, column]
        column = _position(bits, _least(bits), work.row_of)
        work.u[row] = cost[row, column]
        if work.row_of[column] < 0:
            work.column_of[row] = column
            work.row_of[column] = row
        else:
            _insert(row, waiting, work)
            waiting += 1
    for k in range(waiting):
        _augment(work.waiting[k], cost, work)


@njit_uncounted
def _insert(row: int, count: int, work: Work) -> None:
    """Put a row among the `count` waiting ones, dearest first: on matrices of dispatching this order saves up to a
    third of the steps."""
    place = count
    while place > 0 and work.u[work.waiting[place - 1]] < work.u[row]:
        work.waiting[place] = work.waiting[place - 1]
        place -= 1
    work.waiting[place] = row


@njit_uncounted
def _augment(row: int, cost: Floats, work: Work) -> None:
    """Assign one more row along the shortest path to a free column (Dijkstra on reduced costs)."""
    u, v, distance, row_of, column_of = work.u, work.v, work.distance, work.row_of, work.column_of
    bits = distance.view(np.uint64)
    distance[:] = math.inf
    length, current, count = 0.0, row, 0
    while current >= 0:
        _relax(cost[current], v, distance, work.parent, length, u[current], current)
        column = _position(bits, _least(bits), row_of)
        length = distance[column]
        work.scanned[count], work.lengths[count] = column, length
        distance[column] = -math.inf
        current = row_of[column]
        count += 1
    u[row] += length
    for k in range(count - 1):
        rest = length - work.lengths[k]
        u[row_of[work.scanned[k]]] += rest
        v[work.scanned[k]] -= rest
    column = work.scanned[count - 1]
    while current != row:
        current = work.parent[column]
        row_of[column] = current
        column_of[current], column = column, column_of[current]


@njit_uncounted
def _relax(
    costs: Floats, v: Floats, distance: Floats, parent: Integers, length: float, dual: float, current: int
) -> None:
    for column in range(costs.shape[0]):
        through = length + (costs[column] - dual - v[column])
        # Rounding must not make a step shorter than nothing.
        through = max(length, through)
        known = distance[column]
        nearer = through < known
        distance[column] = through if nearer else known
        parent[column] = current if nearer else parent[column]


@njit_uncounted
def _least(bits: Bits) -> np.uint64:
    least = np.uint64(0xFFFFFFFFFFFFFFFF)
    for column in range(bits.shape[0]):
        value = bits[column]
        least = value if value < least else least  # noqa: FURB136  min() does not vectorise
    return least


@njit_uncounted
def _position(bits: Bits, wanted: np.uint64, row_of: Integers) -> int:
    """Last position of this value, a free column if one has it: there the path ends."""
    columns = bits.shape[0]
    best = -1
    for column in range(columns):
        rank = column + columns if row_of[column] < 0 else column
        rank = rank if bits[column] == wanted else -1
        best = max(best, rank)
    return best - columns if best >= columns else best
