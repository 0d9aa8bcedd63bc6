"""Branch and bound in one part: the configurations of one leader and one base count."""

from __future__ import annotations

import numpy as np

from hetserve.compiled import ONE, ZERO, njit_inner
from hetserve.planning.kbest.grid import UNIT
from hetserve.planning.kbest.search import (
    BASE_PRICE,
    KEEP,
    LIMIT,
    NODES,
    TIED,
    Incumbents,
    Part,
    Rows,
    Walk,
    charge,
    copy,
    judge,
    key,
    note_tie,
    offer,
    room,
    start_of_part,
    threshold,
)
from hetserve.planning.kbest.space import Floats, Ints
from hetserve.planning.kbest.tables import Equals, Leaders


@njit_inner
def enter_part(best: Incumbents, table: Leaders, leader: int, u: int, rows: Rows, part: Part, walk: Walk) -> bool:
    """Prepares the first level of a part; False if it needs no visit."""
    best.numbers[NODES] += 1
    size, rate = table.size[leader], table.first[leader]
    left = part.budget - table.entry[leader] - u * best.numbers[BASE_PRICE]
    before, served, per_price = table.before[leader], table.served[leader], table.per_price[leader]
    last, last_cost = threshold(best)
    if last >= 0.0:
        verdict = judge(
            before, served, per_price, size, ZERO, table.common[leader, 0], rate, left, part, last, last_cost
        )
        if verdict == TIED:
            note_tie(best, last, last_cost)
        if verdict != KEEP:
            return False
    if not start_of_part(table, leader, u, rows, walk.counts, walk.spare[0]):
        return False
    if size == 0:
        offer(best, key(best, part.base + min(rate, part.full)), part.budget - left, walk.counts)
    walk.left[0], walk.rate[0] = left, rate
    return bool(size > 0)


@njit_inner
def depth_first(
    best: Incumbents, table: Leaders, equals: Equals, leader: int, rows: Rows, part: Part, walk: Walk
) -> None:
    """Fixes the free types of a part one by one.

    Counts fall from the one that reaches the plateau to zero, then rise from it. The monotone verdict ends the falling
    side.
    """
    # Rows of this leader: the whole table is too large to pass at every node.
    before, served, per_price = table.before[leader], table.served[leader], table.per_price[leader]
    columns, prices, weights = table.column[leader], table.price[leader], table.weight[leader]
    limits, commons, placed = table.most[leader], table.common[leader], table.placed[leader]
    size, level = table.size[leader], ZERO
    _open_level(walk, level, part, rows, columns[0], placed[columns[0]], prices[0], weights[0], limits[0])
    while level >= 0:
        column, count = columns[level], _next_count(walk, level)
        if count > walk.most[level]:
            walk.counts[column] = placed[column]
            level -= 1
            continue
        best.numbers[NODES] += 1
        if best.numbers[NODES] > best.numbers[LIMIT]:
            return
        after = level + 1
        below, money = walk.rate[level] + count * weights[level], walk.left[level] - count * prices[level]
        if not _worth(best, walk, level, part, before, served, per_price, size, commons[after], below, money):
            continue
        walk.counts[column] = placed[column] + count
        if after == size:
            found = key(best, part.base + min(below, part.full))
            _enter_all(best, equals, leader, size, placed, walk, found, part.budget - money)
            continue
        copy(walk.spare[level], walk.spare[after])
        charge(rows, walk.spare[after], column, placed[column], count)
        walk.rate[after], walk.left[after], level, column = below, money, after, columns[after]
        _open_level(walk, level, part, rows, column, placed[column], prices[level], weights[level], limits[level])


@njit_inner
def _open_level(
    walk: Walk, level: int, part: Part, rows: Rows, column: int, placed: int, price: int, weight: float, limit: int
) -> None:
    most = min(limit, walk.left[level] // price, room(rows, walk.spare[level], column, placed))
    turn, lacking = ZERO, part.full - walk.rate[level]
    if weight > 0.0 and lacking > 0.0:
        turn = int(min(float(most), np.ceil(lacking / weight)))
    walk.most[level], walk.turn[level] = most, turn
    walk.now[level], walk.falling[level] = turn + 1, True


@njit_inner
def _next_count(walk: Walk, level: int) -> int:
    if walk.falling[level] and walk.now[level] == 0:
        walk.falling[level] = False
        walk.now[level] = walk.turn[level] + 1
    elif walk.falling[level]:
        walk.now[level] -= 1
    else:
        walk.now[level] += 1
    return int(walk.now[level])


@njit_inner
def _worth(
    best: Incumbents,
    walk: Walk,
    level: int,
    part: Part,
    before: Ints,
    served: Ints,
    per_price: Floats,
    size: int,
    common: int,
    below: float,
    money: int,
) -> bool:
    """Whether anything below a node can enter; may skip later counts."""
    last, last_cost = threshold(best)
    if last < 0.0:
        return True
    start = level + 1
    sharp = judge(before, served, per_price, size, start, common, below, money, part, last, last_cost)
    if sharp == KEEP:
        return True
    monotone = sharp
    if common > 1:
        monotone = judge(before, served, per_price, size, start, ONE, below, money, part, last, last_cost)
    if TIED in (sharp, monotone):  # a skipped count may tie
        note_tie(best, last, last_cost)
    if monotone != KEEP:
        _skip(part, below, last, walk, level)
    return False


@njit_inner
def _skip(part: Part, below: float, last: float, walk: Walk, level: int) -> None:
    """Leaves a side of a level if nothing further on it can be better.

    Falling: bound and cost get worse once the fixed types fall short of the last entry's bound. Rising: the bound
    cannot grow, the cost does.
    """
    short = below < last * UNIT - UNIT / 2 - part.base or part.key_full < last
    if short or not walk.falling[level]:
        walk.now[level] = 0 if walk.falling[level] else walk.most[level]


@njit_inner
def _enter_all(
    best: Incumbents, equals: Equals, leader: int, merged: int, placed: Ints, walk: Walk, found: float, cost: int
) -> None:
    """Offers every way to spread merged counts over their types, until one is refused."""
    size = equals.size[leader]
    if size == merged:
        offer(best, found, cost, walk.counts)
        return
    columns, limits, group, behind = (
        equals.column[leader],
        equals.most[leader],
        equals.group[leader],
        equals.behind[leader],
    )
    taken, rest, now, counts = walk.taken, walk.rest, walk.now, walk.counts
    i, forward = 0, True
    while i >= 0:
        if i == size:
            for k in range(size):
                counts[columns[k]] = placed[columns[k]] + taken[k]
            if not offer(best, found, cost, counts):
                return
            i, forward = i - 1, False
            continue
        if forward:
            first = i == 0 or group[i] != group[i - 1]
            rest[i] = now[group[i]] if first else rest[i - 1] - taken[i - 1]
            taken[i] = min(limits[i], rest[i])
        else:
            taken[i] -= 1
        forward = taken[i] >= max(rest[i] - behind[i], 0)
        i += 1 if forward else -1
