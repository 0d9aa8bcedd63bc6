"""Third key of the ranking: of all configurations with the last entry's bound and cost, the first by counts.

There may be exponentially many; visits end at a node limit.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hetserve.compiled import ONE, ZERO, njit_inner, njit_uncounted
from hetserve.planning.kbest.grid import UNIT
from hetserve.planning.kbest.search import (
    BASE_PRICE,
    BUDGET,
    LIMIT,
    MARGIN,
    NODES,
    Incumbents,
    Rows,
    Walk,
    all_zero,
    charge,
    copy,
    key,
    room,
    saturation,
    start_of_part,
)
from hetserve.planning.kbest.space import Ints
from hetserve.planning.kbest.tables import ByColumn, Leaders


@njit_uncounted
def first_by_counts(
    best: Incumbents,
    table: Leaders,
    columns: ByColumn,
    rows: Rows,
    least: Ints,
    most: Ints,
    seen: Ints,
    target: float,
    walk: Walk,
) -> int:
    """Fills best.counts, in order, with configurations of key `target` that cost exactly the budget; returns how many.

    least, most: per column. seen: per leader, the base counts that may hold one.
    """
    found = 0
    if all_zero(least[1:]):
        found = _base_alone(best, rows, least[0], most[0], target)
    low, high = most[0], least[0]
    for leader in range(len(table.size)):
        if table.size[leader] >= 0:
            low, high = min(low, seen[leader, 0]), max(high, seen[leader, 1])
    for u in range(low, high + 1):
        if found == len(best.counts) and best.counts[found - 1, 0] < u:
            break
        for leader in range(len(table.size)):
            if table.size[leader] >= 0 and seen[leader, 0] <= u <= seen[leader, 1]:
                found = _part(best, table, columns, leader, u, rows, target, found, walk)
                if best.numbers[NODES] > best.numbers[LIMIT]:
                    return found
    return found


@njit_inner
def _base_alone(best: Incumbents, rows: Rows, low: int, high: int, target: float) -> int:
    u = best.numbers[BUDGET] // best.numbers[BASE_PRICE]
    if u * best.numbers[BASE_PRICE] != best.numbers[BUDGET] or not low <= u <= high:
        return 0
    new = max(u - rows.running[0], 0)
    for r in range(len(rows.free)):
        if rows.demand[r, 0] * new > rows.free[r]:
            return 0
    if key(best, u * best.rates[0]) != target:
        return 0
    for column in range(best.counts.shape[1]):
        best.counts[0, column] = 0
    best.counts[0, 0] = u
    return 1


@njit_inner
def _before(one: Ints, other: Ints) -> bool:
    for i in range(len(one)):
        if one[i] != other[i]:
            return bool(one[i] < other[i])
    return False


@njit_inner
def _after(one: Ints, other: Ints, column: int) -> bool:
    """Whether the fixed columns up to this one come after the other's."""
    for i in range(column + 1):
        if one[i] != other[i]:
            return bool(one[i] > other[i])
    return False


@njit_inner
def _enter(best: Incumbents, found: int, counts: Ints) -> int:
    """Keeps a configuration in order; -1 if it comes after all of a full list."""
    top = len(best.counts)
    if found == top and not _before(counts, best.counts[top - 1]):
        return -1
    at = min(found, top - 1)
    while at > 0 and _before(counts, best.counts[at - 1]):
        copy(best.counts[at - 1], best.counts[at])
        at -= 1
    copy(counts, best.counts[at])
    return min(found + 1, top)


@njit_inner
def _can(table: Leaders, leader: int, column: int, money: int, least: float, most: float) -> bool:
    """Whether exactly `money` for free types from a column on can serve a rate in [least, most]."""
    rate, left = _spend(table, leader, column, money, ONE)
    if left > 0 or rate + MARGIN < least:
        return False
    if most == np.inf:
        return True
    rate, left = _spend(table, leader, column, money, ZERO)
    return bool(rate - MARGIN <= most)


@njit_inner
def _spend(table: Leaders, leader: int, column: int, money: int, best_first: int) -> tuple[float, int]:
    """Rate that money buys in fractions of free types from a column on, best (1) or worst (0) first; and the rest."""
    rate, left = 0.0, money
    size = table.size[leader]
    for k in range(size):
        i = k if best_first == 1 else size - 1 - k
        if table.column[leader, i] >= column:
            part = min(left, table.most[leader, i] * table.price[leader, i])
            rate += part * table.per_price[leader, i]
            left -= part
            if left == 0:
                break
    return rate, left


class Aim(NamedTuple):
    """Aim of a walk: spend all its money on a rate from least to most.

    order: free types by column. common: greatest common divisor of the prices from a position on.
    """

    least: float
    most: float
    order: Ints
    common: Ints


@njit_inner
def _part(
    best: Incumbents,
    table: Leaders,
    columns: ByColumn,
    leader: int,
    u: int,
    rows: Rows,
    target: float,
    found: int,
    walk: Walk,
) -> int:
    """Enters the configurations of one part; returns their number so far."""
    size, base = table.size[leader], u * best.rates[0]
    highest = key(best, base + saturation(best, table, leader, u))
    money = best.numbers[BUDGET] - table.entry[leader] - u * best.numbers[BASE_PRICE]
    if highest < target or money < 0 or not start_of_part(table, leader, u, rows, walk.counts, walk.spare[0]):
        return found
    least = target * UNIT - UNIT / 2 - base
    most = np.inf if highest == target else (target + 1) * UNIT - UNIT / 2 - base - 1
    if size == 0:
        fits = money == 0 and least <= table.first[leader] <= most
        return max(_enter(best, found, walk.counts), found) if fits else found
    walk.left[0], walk.rate[0] = money, table.first[leader]
    aim = Aim(least, most, columns.order[leader, :size], columns.common[leader])
    return _in_order(best, table, leader, rows, aim, walk, found)


@njit_inner
def _in_order(best: Incumbents, table: Leaders, leader: int, rows: Rows, aim: Aim, walk: Walk, found: int) -> int:
    """Depth first through one part, in the order of the counts."""
    size, order, level = len(aim.order), aim.order, 0
    left, rate, spare, now, top, counts = walk.left, walk.rate, walk.spare, walk.now, walk.most, walk.counts
    now[0] = -1
    top[0] = _most(table, leader, order[0], left[0], rows, spare[0])
    while level >= 0:
        at = order[level]
        column = table.column[leader, at]
        now[level] += 1
        if now[level] > top[level]:
            counts[column] = table.placed[leader, column]
            level -= 1
            continue
        best.numbers[NODES] += 1
        counts[column] = table.placed[leader, column] + now[level]
        behind = found == len(best.counts) and _after(counts, best.counts[found - 1], column)
        if behind or best.numbers[NODES] > best.numbers[LIMIT]:
            return found
        money = left[level] - now[level] * table.price[leader, at]
        below = rate[level] + now[level] * table.weight[leader, at]
        after = level + 1
        if after == size:
            if money == 0 and aim.least <= below <= aim.most:
                entered = _enter(best, found, counts)
                if entered < 0:
                    return found
                found = entered
            continue
        first = table.column[leader, order[after]]
        whole = money % aim.common[after] == 0
        if not whole or not _can(table, leader, first, money, aim.least - below, aim.most - below):
            continue
        copy(spare[level], spare[after])
        charge(rows, spare[after], column, table.placed[leader, column], now[level])
        left[after], rate[after], now[after], level = money, below, -1, after
        top[level] = _most(table, leader, order[level], money, rows, spare[level])
    return found


@njit_inner
def _most(table: Leaders, leader: int, at: int, money: int, rows: Rows, spare: Ints) -> int:
    column = table.column[leader, at]
    most = min(table.most[leader, at], money // table.price[leader, at])
    return int(min(most, room(rows, spare, column, table.placed[leader, column])))
