"""The k best configurations by (bound, cost): parts by leader and base count, branch and bound in each.

The relaxation of a part (a fractional knapsack) is concave in the base count; parts are visited in its falling order.
Keys and costs are exact; MARGIN keeps the relaxations, which are floats, safe.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from hetserve.compiled import ZERO, njit_inner
from hetserve.planning.kbest.grid import UNIT
from hetserve.planning.kbest.space import Bools, Floats, Ints
from hetserve.planning.kbest.tables import Leaders

MARGIN: Final = 8.0
"""Error limit of a relaxation in fine steps."""

FOUND: Final = 0
NODES: Final = 1
LIMIT: Final = 2
TIED_COST: Final = 3
BUDGET: Final = 4
BASE_PRICE: Final = 5

KEEP: Final = 0
WORSE: Final = 1
TIED: Final = 2


class Incumbents(NamedTuple):
    """The best entries so far, and the counters of the search.

    keys, costs, counts: by key descending, then cost. numbers: indexed by FOUND (entries), NODES (visited), LIMIT (of
    nodes), TIED_COST, BUDGET, BASE_PRICE. rates: Q_b in fine steps, the highest key that counts, and the key of the
    last skipped candidate that may tie (cost: TIED_COST).
    """

    keys: Floats
    costs: Ints
    counts: Ints
    numbers: Ints
    rates: Floats


class Part(NamedTuple):
    """One part: base rate, plateau of the auxiliaries (fine steps), its key, ceiling, budget."""

    base: float
    full: float
    key_full: float
    ceiling: float
    budget: int


class Walk(NamedTuple):
    """Memory of a depth-first walk through one part; each level is a free type of the leader.

    left, rate, spare: money, rate and shared resources before the level. now: its count; turn: where counts stop
    falling and rise; most: its highest; falling: the side. taken, rest: the same over the types of a merged position.
    counts: by column.
    """

    left: Ints
    rate: Floats
    spare: Ints
    now: Ints
    turn: Ints
    most: Ints
    falling: Bools
    taken: Ints
    rest: Ints
    counts: Ints


class Rows(NamedTuple):
    """Resources that columns share: demand of a new instance, free amount, running instances."""

    demand: Ints
    free: Ints
    running: Ints


@njit_inner
def key(best: Incumbents, fine: float) -> float:
    return float(min(np.floor((fine + UNIT / 2) / UNIT), best.rates[1]))


@njit_inner
def saturation(best: Incumbents, table: Leaders, leader: int, u: int) -> float:
    """Auxiliary rate beyond which the key of a part does not rise."""
    enough = max(best.rates[1] * UNIT - UNIT / 2 - u * best.rates[0], 0.0)
    return float(min(u * table.slack[leader], enough))


@njit_inner
def offer(best: Incumbents, found: float, cost: int, counts: Ints) -> bool:
    """Enters a configuration if it beats the last entry or there is room; returns whether it did."""
    last, last_cost = threshold(best)
    if found < last or (found == last and cost >= last_cost):
        if found == last and cost == last_cost:
            note_tie(best, last, last_cost)
        return False
    at = min(best.numbers[FOUND], len(best.keys) - 1)
    if best.numbers[FOUND] == len(best.keys):
        # The dropped entry may tie with the new last one.
        note_tie(best, last, last_cost)
    while at > 0 and (best.keys[at - 1] < found or (best.keys[at - 1] == found and best.costs[at - 1] > cost)):
        best.keys[at] = best.keys[at - 1]
        best.costs[at] = best.costs[at - 1]
        copy(best.counts[at - 1], best.counts[at])
        at -= 1
    best.keys[at] = found
    best.costs[at] = cost
    copy(counts, best.counts[at])
    best.numbers[FOUND] = min(best.numbers[FOUND] + 1, len(best.keys))
    return True


@njit_inner
def relaxation(best: Incumbents, table: Leaders, leader: int, u: int) -> float:
    """Bound of a part in fine steps with fractional instances; concave in u."""
    money = best.numbers[BUDGET] - table.entry[leader] - u * best.numbers[BASE_PRICE]
    more = most_rate(
        table.before[leader], table.served[leader], table.per_price[leader], table.size[leader], ZERO, money
    )
    rate = table.first[leader] + more
    return float(u * best.rates[0] + min(rate, saturation(best, table, leader, u)))


@njit_inner
def judge(
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
) -> int:
    """KEEP, WORSE or TIED: whether anything below a node can enter, or ties with the last entry.

    rate, left: rate of the fixed types, and unspent money. common: divisor of all following prices, which sharpens the
    verdict but makes it not monotone; 1 disables it. last, last_cost: the entry to beat.
    """
    margin = MARGIN if start < size else 0.0
    money = left - left % common if common > 1 else left
    reach = min(rate + most_rate(before, served, per_price, size, start, money) + margin, part.full)
    highest = min(np.floor((part.base + reach + UNIT / 2) / UNIT), part.ceiling)
    if highest != last:
        return WORSE if highest < last else KEEP
    cost = part.budget - left
    needed = last * UNIT - UNIT / 2 - part.base - rate
    if needed > 0.0:
        money_needed = least_money(before, served, per_price, size, start, needed - margin)
        if money_needed > part.budget:
            return WORSE
        whole = max(int(np.ceil(money_needed - 1e-6 - 1e-12 * money_needed)), 0)
        cost += -(-whole // common) * common if common > 1 else whole
    if cost < last_cost:
        return KEEP
    return TIED if cost == last_cost else WORSE


@njit_inner
def copy(source: Ints, target: Ints) -> None:
    """Copies element by element: numba copies a slice twice."""
    for i in range(len(target)):
        target[i] = source[i]


@njit_inner
def all_zero(counts: Ints) -> bool:
    total = 0
    for i in range(len(counts)):
        total += counts[i]
    return total == 0


@njit_inner
def room(rows: Rows, spare: Ints, column: int, placed: int) -> int:
    """Most further instances of a column that shared resources allow."""
    most = 2**62
    for r in range(len(rows.free)):
        need = rows.demand[r, column]
        if need > 0:
            most = min(most, max(rows.running[column] - placed, 0) + spare[r] // need)
    return most


@njit_inner
def charge(rows: Rows, spare: Ints, column: int, placed: int, more: int) -> None:
    """Subtracts the demand of `more` instances of a column; running ones are charged."""
    if len(rows.free) > 0 and more > 0:
        new = max(placed + more - rows.running[column], 0) - max(placed - rows.running[column], 0)
        for r in range(len(rows.free)):
            spare[r] -= rows.demand[r, column] * new


@njit_inner
def start_of_part(table: Leaders, leader: int, u: int, rows: Rows, counts: Ints, spare: Ints) -> bool:
    """Counts and free resources of a part before any free type is fixed; False if that does not fit."""
    copy(table.placed[leader], counts)
    counts[0] = u
    copy(rows.free, spare)
    for column in range(len(counts)):
        charge(rows, spare, column, ZERO, counts[column])
    enough = True
    for r in range(len(spare)):
        enough = enough and spare[r] >= 0
    return enough


@njit_inner
def part_of(best: Incumbents, table: Leaders, leader: int, u: int) -> Part:
    base, full = u * best.rates[0], saturation(best, table, leader, u)
    return Part(base, full, key(best, base + full), best.rates[1], best.numbers[BUDGET])


@njit_inner
def threshold(best: Incumbents) -> tuple[float, int]:
    """Key and cost to beat; a key of -1 while there is room."""
    if best.numbers[FOUND] < len(best.keys):
        return -1.0, 0
    return best.keys[-1], best.costs[-1]


@njit_inner
def note_tie(best: Incumbents, found: float, cost: int) -> None:
    """Records that a configuration of this key and cost may have been skipped."""
    best.rates[2] = found
    best.numbers[TIED_COST] = cost


@njit_inner
def most_rate(before: Ints, served: Ints, per_price: Floats, size: int, start: int, money: int) -> float:
    """Most rate that `money` buys of the free types from a position on, with fractions.

    The first three are a leader's rows: the table is too large to pass at every node.
    """
    low, high = start, size
    money += before[start]
    while low < high:
        middle = (low + high) // 2
        if before[middle + 1] < money:
            low = middle + 1
        else:
            high = middle
    rate = float(served[low] - served[start])
    if low < size:
        rate += (money - before[low]) * per_price[low]
    return rate


@njit_inner
def least_money(before: Ints, served: Ints, per_price: Floats, size: int, start: int, rate: float) -> float:
    """Least money for which the free types from a position on serve `rate`, with fractions; inf if impossible."""
    if rate <= 0.0:
        return 0.0
    low, high = start, size
    rate += float(served[start])
    while low < high:
        middle = (low + high) // 2
        if served[middle + 1] < rate:
            low = middle + 1
        else:
            high = middle
    if low == size:
        return np.inf
    return float(before[low] - before[start] + (rate - served[low]) / per_price[low])
