"""Rectangular linear sum assignment by shortest augmenting paths, compiled, in memory that the caller owns.

The algorithm of Jonker and Volgenant as simplified by Crouse (2016), which scipy.optimize.linear_sum_assignment
uses too. Two things differ: nothing is allocated, and rows start at their cheapest column where it is free, which
leaves few paths to search when instances of one type look alike.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from hetserve.compiled import njit
from hetserve.dispatch.kernel import Floats, Integers


class Work(NamedTuple):
    """Memory of one solve of `rows` x `columns`, rows <= columns; row_of and column_of hold the answer.

    u: duals by row; v: duals by column; shortest: path length by column; columns: scanned ones last.
    """

    u: Floats
    v: Floats
    shortest: Floats
    row_of: Integers
    column_of: Integers
    path: Integers
    columns: Integers


@njit
def carve(rows: int, columns: int, floats: Floats, integers: Integers) -> Work:
    """Work arrays out of rows + 2 columns floats and rows + 3 columns integers."""
    a, b = rows + columns, rows + 2 * columns
    return Work(
        floats[:rows],
        floats[rows:a],
        floats[a:b],
        integers[rows:a],
        integers[:rows],
        integers[a:b],
        integers[b : b + columns],
    )


@njit
def assign(cost: Floats, work: Work) -> None:
    """Assign every row of a finite cost matrix, rows <= columns, to its own column at least total cost.

    work.column_of[row] and work.row_of[column] (-1: none) hold the result.
    """
    work.v[:] = 0.0
    work.row_of[:] = -1
    for row in range(cost.shape[0]):
        _start_at_minimum(row, cost, work)
    for row in range(cost.shape[0]):
        if work.column_of[row] < 0:
            _augment(row, cost, work)


@njit
def _start_at_minimum(row: int, cost: Floats, work: Work) -> None:
    lowest, choice = math.inf, -1
    for column in range(cost.shape[1]):
        value = cost[row, column]
        if value < lowest or (value == lowest and choice < 0):
            choice = column if work.row_of[column] < 0 else -1
            lowest = value
    work.u[row] = lowest
    work.column_of[row] = choice
    if choice >= 0:
        work.row_of[choice] = row


@njit
def _augment(row: int, cost: Floats, work: Work) -> None:
    for column in range(cost.shape[1]):
        work.columns[column] = column
        work.shortest[column] = math.inf
    left, length, current, sink = cost.shape[1], 0.0, row, -1
    while sink < 0:
        at, length = _extend(current, length, left, cost, work)
        left -= 1
        column = work.columns[at]
        work.columns[at], work.columns[left] = work.columns[left], column
        if work.row_of[column] < 0:
            sink = column
        else:
            current = work.row_of[column]
    work.u[row] += length
    for at in range(left, cost.shape[1]):
        column = work.columns[at]
        if column != sink:
            rest = length - work.shortest[column]
            work.u[work.row_of[column]] += rest
            work.v[column] -= rest
    _flip(row, sink, work)


@njit
def _extend(current: int, length: float, left: int, cost: Floats, work: Work) -> tuple[int, float]:
    """Relax the edges of row `current`; position among work.columns of the nearest column, and its distance."""
    nearest, at = math.inf, -1
    offset = length - work.u[current]
    for position in range(left):
        column = work.columns[position]
        distance = offset + cost[current, column] - work.v[column]
        if distance < work.shortest[column]:
            work.shortest[column] = distance
            work.path[column] = current
        else:
            distance = work.shortest[column]
        # Ties go to a free column: the path ends there.
        if distance < nearest or (distance == nearest and work.row_of[column] < 0):
            nearest, at = distance, position
    return at, nearest


@njit
def _flip(row: int, sink: int, work: Work) -> None:
    column, current = sink, -1
    while current != row:
        current = work.path[column]
        work.row_of[column] = current
        work.column_of[current], column = column, work.column_of[current]
