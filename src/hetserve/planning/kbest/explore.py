"""Branch and bound in one part: the configurations of one leader and one base count."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hetserve.compiled import njit
from hetserve.planning.kbest.grid import UNIT
from hetserve.planning.kbest.search import (
    BASE_PRICE,
    BUDGET,
    KEEP,
    LIMIT,
    NODES,
    TIED,
    Best,
    Part,
    Rows,
    charge,
    judge,
    key,
    note_tie,
    offer,
    part_of,
    room,
    start_of_part,
    threshold,
)
from hetserve.planning.kbest.space import Bools, Floats, Ints
from hetserve.planning.kbest.tables import Leaders


class Walk(NamedTuple):
    """Where a depth-first walk stands, one entry per level: a free type of the leader.

    left, rate, spare: money, rate and shared resources before the level's type is fixed. now: its count; turn: from
    which counts fall, then rise; most: its highest; falling: which side is being walked.
    """

    left: Ints
    rate: Floats
    spare: Ints
    now: Ints
    turn: Ints
    most: Ints
    falling: Bools


@njit
def explore(best: Best, table: Leaders, plain: Leaders, leader: int, u: int, rows: Rows) -> None:
    """Explore one part; plain: the table whose equal types are not merged."""
    size = table.size[leader]
    counts = np.empty(best.counts.shape[1], np.int64)
    spare = np.empty((size + 1, len(rows.free)), np.int64)
    if not start_of_part(table, leader, u, rows, counts, spare[0]):
        return
    part = part_of(best, table, leader, u)
    left, rate = np.empty(size + 1, np.int64), np.empty(size + 1)
    left[0] = best.numbers[BUDGET] - table.entry[leader] - u * best.numbers[BASE_PRICE]
    rate[0] = table.first[leader]
    if size == 0:
        offer(best, key(best, part.base + min(rate[0], part.full)), part.budget - left[0], counts)
        return
    now, turn, most = np.zeros(size, np.int64), np.zeros(size, np.int64), np.zeros(size, np.int64)
    walk = Walk(left, rate, spare, now, turn, most, np.zeros(size, np.bool_))
    _depth_first(best, table, plain, leader, rows, part, walk, counts)


@njit
def _depth_first(
    best: Best, table: Leaders, plain: Leaders, leader: int, rows: Rows, part: Part, walk: Walk, counts: Ints
) -> None:
    """The free types one by one.

    At each level counts fall from the one that reaches the plateau to zero, then rise from it: the falling side is
    left as soon as the monotone verdict (without common divisors) says so, and not before, since what overshoots
    the plateau becomes cheaper on the way down.
    """
    # Rows of this leader: the whole table is too large to be passed at every node.
    before, served, per_price = table.before[leader], table.served[leader], table.per_price[leader]
    columns, prices, weights = table.column[leader], table.price[leader], table.weight[leader]
    limits, commons, placed = table.most[leader], table.common[leader], table.placed[leader]
    left, rate, spare, now, turn, most, falling = walk
    last, last_cost = threshold(best)
    size, level, entering = table.size[leader], 0, True
    while level >= 0:
        column = columns[level]
        if entering:
            most[level] = min(limits[level], left[level] // prices[level])
            if len(rows.free) > 0:
                most[level] = min(most[level], room(rows, spare[level], column, placed[column]))
            turn[level] = _turn(part.full - rate[level], weights[level], most[level])
            now[level], falling[level], entering = turn[level] + 1, True, False
        _step(now, turn, falling, level)
        if now[level] > most[level]:
            counts[column] = placed[column]
            level -= 1
            continue
        best.numbers[NODES] += 1
        if best.numbers[NODES] > best.numbers[LIMIT]:
            return
        after = level + 1
        below, money = rate[level] + now[level] * weights[level], left[level] - now[level] * prices[level]
        verdict, rest = _judge_both(
            before, served, per_price, size, after, commons[after], below, money, part, last, last_cost
        )
        if verdict != KEEP:
            if TIED in (verdict, rest):  # what is skipped with it may tie although this count does not
                note_tie(best, last, last_cost)
            if rest != KEEP:
                _skip(part, below, last, now, most, falling, level)
            continue
        counts[column] = placed[column] + now[level]
        if after == size:
            found = key(best, part.base + min(below, part.full))
            _enter_all(best, table, plain, leader, now, counts, found, part.budget - money)
            last, last_cost = threshold(best)
            continue
        spare[after] = spare[level]
        charge(rows, spare[after], column, placed[column], now[level])
        rate[after], left[after], level, entering = below, money, after, True


@njit
def _skip(part: Part, below: float, last: float, now: Ints, most: Ints, falling: Bools, level: int) -> None:
    """Leave this side of a level where nothing further on it can be better.

    Falling, bound and cost floor get worse with every step once what is fixed falls short of the last entry's bound;
    while it does not, each step is cheaper. Rising, the bound cannot grow, the cost does.
    """
    short = below < last * UNIT - UNIT / 2 - part.base or part.key_full < last
    if short or not falling[level]:
        now[level] = 0 if falling[level] else most[level]


@njit
def _enter_all(
    best: Best, table: Leaders, plain: Leaders, leader: int, now: Ints, counts: Ints, found: float, cost: int
) -> None:
    """Offer every way to spread merged counts over their types, until one is refused: all are equal."""
    placed, start, limits = plain.placed[leader], table.start[leader], plain.most[leader]
    size = plain.size[leader]
    if size == table.size[leader]:
        offer(best, found, cost, counts)
        return
    group, after = np.zeros(size, np.int64), np.zeros(size + 1, np.int64)
    for position in range(table.size[leader]):
        for i in range(start[position + 1] - 1, start[position] - 1, -1):
            group[i] = position
            after[i] = limits[i] + (after[i + 1] if i + 1 < start[position + 1] else 0)
    taken, rest = np.zeros(size, np.int64), np.zeros(size + 1, np.int64)
    i, forward = 0, True
    while i >= 0:
        if i == size:
            for k in range(size):
                counts[plain.column[leader, k]] = placed[plain.column[leader, k]] + taken[k]
            if not offer(best, found, cost, counts):
                return
            i, forward = i - 1, False
            continue
        if forward:
            rest[i] = now[group[i]] if i == start[group[i]] else rest[i - 1] - taken[i - 1]
            taken[i] = min(limits[i], rest[i])
        else:
            taken[i] -= 1
        least = rest[i] - (after[i] - limits[i])
        forward = taken[i] >= max(least, 0)
        i += 1 if forward else -1


@njit
def _turn(lacking: float, weight: float, most: int) -> int:
    """Count from which to fall and to rise: the fewest instances that reach the plateau, or as many as there may be."""
    if weight <= 0.0 or lacking <= 0.0:
        return 0
    return int(min(float(most), np.ceil(lacking / weight)))


@njit
def _step(now: Ints, turn: Ints, falling: Bools, level: int) -> None:
    """Next count of a level: one less, or beyond the turning point one more."""
    if falling[level] and now[level] == 0:
        falling[level] = False
        now[level] = turn[level] + 1
    elif falling[level]:
        now[level] -= 1
    else:
        now[level] += 1


@njit
def _judge_both(
    before: Ints,
    served: Ints,
    per_price: Floats,
    size: int,
    start: int,
    common: int,
    rate: float,
    left: int,
    part: Part,
    last: float,
    last_cost: int,
) -> tuple[int, int]:
    """The sharp verdict on a node and, where it is against it, the monotone one."""
    if last < 0.0:
        return KEEP, KEEP
    sharp = judge(before, served, per_price, size, start, common, rate, left, part, last, last_cost)
    if sharp == KEEP or common <= 1:
        return sharp, sharp
    return sharp, judge(before, served, per_price, size, start, 1, rate, left, part, last, last_cost)
