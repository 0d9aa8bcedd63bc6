"""Rectangular linear sum assignment by shortest augmenting paths (Jonker and Volgenant; Crouse 2016), compiled.

As scipy's linear_sum_assignment, 3 to 5 times as fast here: it allocates nothing, rows start at a free cheapest column,
and loops vectorise. Distances compare by their bits: non-negative doubles order like unsigned integers, and -infinity
(scanned) is last.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hetserve.compiled import ZERO, njit, njit_inner, njit_uncounted
from hetserve.dispatch.kernel import Floats, Integers

Bits = NDArray[np.uint64]


class AssignmentWorkspace(NamedTuple):
    """Memory of one solve, rows <= columns; row_of and column_of hold the result.

    u, v: duals by row, column; distance: by column, -infinity once scanned; lengths, scanned: distance and number of
    the k-th scanned column; rows: the k-th row from which columns were reached; rank: by column, its number, plus the
    number of columns while free; waiting: rows whose cheapest column was taken.
    """

    u: Floats
    v: Floats
    distance: Floats
    lengths: Floats
    row_of: Integers
    column_of: Integers
    scanned: Integers
    rows: Integers
    rank: Integers
    waiting: Integers


def work_sizes(rows: int, columns: int) -> tuple[int, int]:
    return rows + 3 * columns, 3 * rows + 3 * columns


@njit
def carve(rows: int, columns: int, floats: Floats, integers: Integers) -> AssignmentWorkspace:
    a, b, c = rows + columns, rows + 2 * columns, rows + 3 * columns
    return AssignmentWorkspace(
        floats[:rows],
        floats[rows:a],
        floats[a:b],
        floats[b:c],
        integers[rows:a],
        integers[:rows],
        integers[a:b],
        integers[c : c + rows],
        integers[b:c],
        integers[c + rows : c + 2 * rows],
    )


@njit_uncounted
def assign(cost: Floats, work: AssignmentWorkspace) -> None:
    """Assigns every row, rows <= columns, to its own column at least total cost.

    cost: finite, not negative. Result: work.column_of[row], work.row_of[column] (-1: none).
    """
    work.v[:] = 0.0
    work.row_of[:] = -1
    for column in range(cost.shape[1]):
        work.rank[column] = column + cost.shape[1]
    bits, waiting = work.distance.view(np.uint64), ZERO
    for row in range(cost.shape[0]):
        for column in range(cost.shape[1]):  # numba copies slices twice
            work.distance[column] = cost[row, column]
        column = _position(bits, _least(bits), work.rank)
        work.u[row] = cost[row, column]
        if work.row_of[column] < 0:
            work.column_of[row] = column
            work.row_of[column] = row
            work.rank[column] = column
        else:
            _insert(row, waiting, work)
            waiting += 1
    for k in range(waiting):
        _augment(work.waiting[k], cost, work)


@njit_inner
def _insert(row: int, count: int, work: AssignmentWorkspace) -> None:
    """Inserts a row into the `count` waiting ones, dearest first, which saves steps."""
    place = count
    while place > 0 and work.u[work.waiting[place - 1]] < work.u[row]:
        work.waiting[place] = work.waiting[place - 1]
        place -= 1
    work.waiting[place] = row


@njit_inner
def _augment(row: int, cost: Floats, work: AssignmentWorkspace) -> None:
    """Assigns one row along the shortest path to a free column (Dijkstra on reduced costs)."""
    u, v, distance, rows, scanned = work.u, work.v, work.distance, work.rows, work.scanned
    bits = distance.view(np.uint64)
    distance[:] = math.inf
    length, current, count = 0.0, row, 0
    while current >= 0:
        rows[count] = current
        column = _position(bits, _relax(cost[current], v, distance, length, u[current]), work.rank)
        length = distance[column]
        scanned[count], work.lengths[count] = column, length
        distance[column] = -math.inf
        current = work.row_of[column]
        count += 1
    _flip_path(count - 1, cost, work)
    u[row] += length
    for k in range(count - 1):
        rest = length - work.lengths[k]
        u[rows[k + 1]] += rest
        v[scanned[k]] -= rest


@njit_inner
def _flip_path(last: int, cost: Floats, work: AssignmentWorkspace) -> None:
    """Gives every column of the path to the row that reached it; `last`: the path's end."""
    work.rank[work.scanned[last]] = work.scanned[last]
    while last >= 0:
        column, distance, k, length = work.scanned[last], work.lengths[last], 0, 0.0
        row = work.rows[0]
        while k < last and _through(cost[row, column], work.v[column], length, work.u[row]) != distance:
            length = work.lengths[k]
            k += 1
            row = work.rows[k]
        work.row_of[column] = row
        work.column_of[row] = column
        last = k - 1


@njit_inner
def _through(cost: float, v: float, length: float, dual: float) -> float:
    return max(length, length + (cost - dual - v))


@njit_inner
def _relax(costs: Floats, v: Floats, distance: Floats, length: float, dual: float) -> np.uint64:
    """Shortens the distances by one row; returns the bits of the least."""
    bits, least = distance.view(np.uint64), np.uint64(0xFFFFFFFFFFFFFFFF)
    for column in range(costs.shape[0]):
        through, known = _through(costs[column], v[column], length, dual), distance[column]
        distance[column] = through if through < known else known  # noqa: FURB136  min() does not vectorise
        value = bits[column]
        least = value if value < least else least  # noqa: FURB136
    return least


@njit_inner
def _least(bits: Bits) -> np.uint64:
    least = np.uint64(0xFFFFFFFFFFFFFFFF)
    for column in range(bits.shape[0]):
        value = bits[column]
        least = value if value < least else least  # noqa: FURB136
    return least


@njit_inner
def _position(bits: Bits, wanted: np.uint64, rank: Integers) -> int:
    """Last position of this value, preferably a free column."""
    columns = bits.shape[0]
    best = -1
    for column in range(columns):
        best = max(best, rank[column] if bits[column] == wanted else -1)
    return best - columns if best >= columns else best
