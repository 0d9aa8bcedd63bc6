"""The order of parts: the best relaxation first, until none can hold a better entry."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hetserve.compiled import njit_inner, njit_uncounted
from hetserve.planning.kbest.explore import depth_first, enter_part
from hetserve.planning.kbest.grid import UNIT
from hetserve.planning.kbest.search import (
    BASE_PRICE,
    BUDGET,
    FOUND,
    LIMIT,
    MARGIN,
    NODES,
    Incumbents,
    Rows,
    Walk,
    all_zero,
    key,
    offer,
    part_of,
    relaxation,
)
from hetserve.planning.kbest.space import Floats, Ints
from hetserve.planning.kbest.tables import Equals, Leaders

_LEFT, _RIGHT = 0, 1


class Frontier(NamedTuple):
    """The next part of each leader, left and right of its peak [leader, side].

    next_u: base count; limit_u: the last; bound: relaxation at next_u, negative if no part remains.
    """

    next_u: Ints
    limit_u: Ints
    bound: Floats


@njit_uncounted
def search(
    best: Incumbents,
    table: Leaders,
    equals: Equals,
    rows: Rows,
    least: Ints,
    most: Ints,
    frontier: Frontier,
    walk: Walk,
) -> None:
    """Fills `best`. `frontier` ends one beyond the visited base counts. least, most: per column."""
    next_u, limit_u, bound = frontier
    if all_zero(least[1:]):
        _base_alone(best, rows, least[0], most[0], walk.counts)
    _peaks(best, table, least[0], most[0], frontier)
    while best.numbers[NODES] <= best.numbers[LIMIT]:
        leader, side = _highest(bound)
        if leader < 0:
            break
        if best.numbers[FOUND] == len(best.keys):
            highest = key(best, bound[leader, side] + MARGIN)
            if highest < best.keys[len(best.keys) - 1]:
                break
        u = next_u[leader, side]
        part = part_of(best, table, leader, u)
        if enter_part(best, table, leader, u, rows, part, walk):
            depth_first(best, table, equals, leader, rows, part, walk)
        step = -1 if side == _LEFT else 1
        next_u[leader, side] = u + step
        done = u == limit_u[leader, side]
        bound[leader, side] = -1.0 if done else relaxation(best, table, leader, u + step)


@njit_inner
def _highest(bound: Floats) -> tuple[int, int]:
    """Leader and side of the highest bound, ties to the first; -1 for none."""
    leader, side, highest = -1, 0, -1.0
    for i in range(bound.shape[0]):
        for k in range(2):
            if bound[i, k] > highest:
                leader, side, highest = i, k, bound[i, k]
    return leader, side


@njit_inner
def _peaks(best: Incumbents, table: Leaders, least: int, most: int, frontier: Frontier) -> None:
    """Starts each leader's search at its peak. least, most: of the base."""
    next_u, limit_u, bound = frontier
    for leader in range(len(table.size)):
        money = best.numbers[BUDGET] - table.entry[leader]
        high = min(most, money // best.numbers[BASE_PRICE]) if money >= 0 else -1
        if table.size[leader] < 0 or high < least:
            next_u[leader, 1] = -1
            continue
        peak = _peak(best, table, leader, least, high)
        limit_u[leader, _LEFT], limit_u[leader, _RIGHT] = least, high
        next_u[leader, _LEFT], next_u[leader, _RIGHT] = peak, peak + 1
        bound[leader, _LEFT] = relaxation(best, table, leader, peak)
        if peak < high:
            bound[leader, _RIGHT] = relaxation(best, table, leader, peak + 1)


@njit_inner
def _base_alone(best: Incumbents, rows: Rows, low: int, high: int, counts: Ints) -> None:
    """Offers configurations without auxiliaries. counts: memory for one."""
    high = min(high, best.numbers[BUDGET] // best.numbers[BASE_PRICE])
    need = rows.demand[:, 0]
    for r in range(len(rows.free)):
        if need[r] > 0:
            high = min(high, rows.running[0] + rows.free[r] // need[r])
    # Start at the fewest that reach the highest key.
    turn = high
    if best.rates[1] < np.inf:
        turn = int(min(float(high), np.ceil((best.rates[1] * UNIT - UNIT / 2) / best.rates[0])))
    top = len(best.keys)
    for u in range(max(turn - top + 1, low), min(turn + top - 1, high) + 1):
        counts[0] = u
        offer(best, key(best, u * best.rates[0]), u * best.numbers[BASE_PRICE], counts)


@njit_inner
def _peak(best: Incumbents, table: Leaders, leader: int, low: int, high: int) -> int:
    """Base count with the highest relaxation, by ternary search, which rounding does not mislead."""
    while high - low > 2:
        third = (high - low) // 3
        one, other = low + third, high - third
        if relaxation(best, table, leader, one) < relaxation(best, table, leader, other):
            low = one + 1
        else:
            high = other
    at, highest = low, -1.0
    for u in range(low, high + 1):
        value = relaxation(best, table, leader, u)
        if value > highest:
            at, highest = u, value
    return at
