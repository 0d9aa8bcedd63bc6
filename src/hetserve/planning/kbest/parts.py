"""Which parts to explore, and in what order: the best relaxation first, until none can hold a better entry."""

from __future__ import annotations

import numpy as np

from hetserve.compiled import njit
from hetserve.planning.kbest.explore import explore
from hetserve.planning.kbest.grid import UNIT
from hetserve.planning.kbest.search import (
    BASE_PRICE,
    BUDGET,
    FOUND,
    KEEP,
    LIMIT,
    MARGIN,
    NODES,
    TIED,
    Best,
    Rows,
    judge,
    key,
    note_tie,
    offer,
    part_of,
    relaxation,
    threshold,
)
from hetserve.planning.kbest.space import Floats, Ints
from hetserve.planning.kbest.tables import Leaders

_LEFT, _RIGHT = 0, 1


@njit
def search(best: Best, table: Leaders, plain: Leaders, rows: Rows, least: Ints, most: Ints) -> Ints:
    """Fill `best`; answers, per leader, the base counts looked at: low, high.

    plain: the table whose equal types are not merged. least, most: per column.
    """
    leaders = len(table.size)
    if least[1:].sum() == 0:
        _base_alone(best, rows, least[0], most[0])
    next_u = np.zeros((leaders, 2), np.int64)
    limit_u = np.zeros((leaders, 2), np.int64)
    bound = np.full((leaders, 2), -1.0)
    _peaks(best, table, least[0], most[0], next_u, limit_u, bound)
    while leaders > 0 and best.numbers[NODES] <= best.numbers[LIMIT]:
        at = int(np.argmax(bound))
        leader, side = at // 2, at % 2
        if bound[leader, side] < 0.0:
            break
        if best.numbers[FOUND] == len(best.keys):
            highest = key(best, bound[leader, side] + MARGIN)
            if highest < best.keys[len(best.keys) - 1]:
                break
        u = next_u[leader, side]
        _look(best, table, plain, leader, u, rows)
        step = -1 if side == _LEFT else 1
        next_u[leader, side] = u + step
        done = u == limit_u[leader, side]
        bound[leader, side] = -1.0 if done else relaxation(best, table, leader, u + step)
    seen = np.empty((leaders, 2), np.int64)
    seen[:, 0] = next_u[:, _LEFT] + 1
    seen[:, 1] = next_u[:, _RIGHT] - 1
    return seen


@njit
def _peaks(best: Best, table: Leaders, least: int, most: int, next_u: Ints, limit_u: Ints, bound: Floats) -> None:
    """Where each leader's search begins, to the left and to the right of its peak. least, most: of the base."""
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


@njit
def _look(best: Best, table: Leaders, plain: Leaders, leader: int, u: int, rows: Rows) -> None:
    """Explore a part unless its root already is hopeless."""
    best.numbers[NODES] += 1
    last, last_cost = threshold(best)
    if last >= 0.0:
        verdict = judge(
            table.before[leader],
            table.served[leader],
            table.per_price[leader],
            table.size[leader],
            0,
            table.common[leader, 0],
            table.first[leader],
            best.numbers[BUDGET] - table.entry[leader] - u * best.numbers[BASE_PRICE],
            part_of(best, table, leader, u),
            last,
            last_cost,
        )
        if verdict == TIED:
            note_tie(best, last, last_cost)
        if verdict != KEEP:
            return
    explore(best, table, plain, leader, u, rows)


@njit
def _base_alone(best: Best, rows: Rows, low: int, high: int) -> None:
    """Configurations without auxiliaries."""
    counts = np.zeros(best.counts.shape[1], np.int64)
    high = min(high, best.numbers[BUDGET] // best.numbers[BASE_PRICE])
    need = rows.demand[:, 0]
    for r in range(len(rows.free)):
        if need[r] > 0:
            high = min(high, rows.running[0] + rows.free[r] // need[r])
    # From the fewest that reach the highest key that counts: more of them are dearer, fewer have a lower bound.
    turn = high
    if best.rates[1] < np.inf:
        turn = int(min(float(high), np.ceil((best.rates[1] * UNIT - UNIT / 2) / best.rates[0])))
    top = len(best.keys)
    for u in range(max(turn - top + 1, low), min(turn + top - 1, high) + 1):
        counts[0] = u
        offer(best, key(best, u * best.rates[0]), u * best.numbers[BASE_PRICE], counts)


@njit
def _peak(best: Best, table: Leaders, leader: int, low: int, high: int) -> int:
    """Base count with the highest relaxation; thirds, not neighbours, so that rounding does not mislead."""
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
