"""What the search needs of each leader, laid out once: its free types by falling rate per price."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hetserve.compiled import njit
from hetserve.planning.kbest.grid import FINE
from hetserve.planning.kbest.space import Floats, Ints


class Leaders(NamedTuple):
    """One row per auxiliary type that can lead; positions along a row are its free types, best rate per price first.

    A configuration's leader is its first present type in the order of `Space.leading`. Leader i alone has one
    instance (or `least`) placed beforehand; types before it are absent, those after it and itself are free.
    entry, first: cost and rate of what is placed beforehand. size: positions, -1: it cannot lead. start: where a
    position begins in the row of the table whose equals are not merged; one more than positions. column, price,
    weight, most: of a free type, most beyond what is placed. spend: cost of most. before, served: cost and rate of most
    of every position before one. common: greatest common divisor of the prices from a position on.
    """

    entry: Ints
    first: Floats
    slack: Floats
    size: Ints
    column: Ints
    start: Ints
    price: Ints
    weight: Floats
    per_price: Floats
    most: Ints
    spend: Ints
    before: Ints
    served: Ints
    common: Ints
    placed: Ints


@njit
def gcd(a: int, b: int) -> int:
    """Greatest common divisor; 0 is neutral."""
    while b:
        a, b = b, a % b
    return a


@njit
def lay_out(prices: Ints, least: Ints, most: Ints, order: Ints, weights: Floats, slack: Floats, merge: bool) -> Leaders:
    """Leaders of a space. order: auxiliaries as they lead; weights and slack in fine steps.

    merge: types of equal price and rate share a position; without that, equals are looked at exponentially often.
    """
    size = len(order)
    ints, longer = (size, size), (size, size + 1)
    table = Leaders(
        np.zeros(size, np.int64),
        np.zeros(size),
        slack,
        np.full(size, -1, np.int64),
        np.zeros(ints, np.int64),
        np.zeros(longer, np.int64),
        np.zeros(ints, np.int64),
        np.zeros(ints),
        np.zeros(ints),
        np.zeros(ints, np.int64),
        np.zeros(ints, np.int64),
        np.zeros(longer, np.int64),
        np.zeros(longer, np.int64),
        np.zeros(longer, np.int64),
        np.zeros(longer, np.int64),
    )
    for rank in range(size):
        leader = order[rank]
        table.placed[leader, 1:] = least[1:]
        table.placed[leader, 1 + leader] = max(least[1 + leader], 1)
        if table.placed[leader, 1 + leader] <= most[1 + leader]:
            _fill(table, leader, order[rank:], prices, most, weights[leader], merge)
            _add_up(table, leader)
        if least[1 + leader] > 0:
            break  # a type that must be there leads wherever none before it does
    return table


@njit
def _fill(table: Leaders, leader: int, free: Ints, prices: Ints, most: Ints, weights: Floats, merge: bool) -> None:
    """One leader's row: what is placed, then its free types by worth, by price, as they stand."""
    by_price = np.argsort(np.array([prices[1 + j] for j in free]), kind="mergesort")
    worth = np.array([-weights[j] / prices[1 + j] for j in free[by_price]])
    count, position = 0, 0
    for at in np.argsort(worth, kind="mergesort"):
        j = free[by_price[at]]
        here, price, weight = table.placed[leader, 1 + j], prices[1 + j], weights[j]
        table.entry[leader] += here * price
        table.first[leader] += here * weight
        if most[1 + j] <= here:
            continue
        last = count - 1
        if merge and count and table.price[leader, last] == price and table.weight[leader, last] == weight:
            table.most[leader, last] += most[1 + j] - here
        else:
            table.column[leader, count] = 1 + j
            table.start[leader, count] = position
            table.price[leader, count] = price
            table.weight[leader, count] = weight
            table.per_price[leader, count] = weight / price
            table.most[leader, count] = most[1 + j] - here
            count += 1
        position += 1
    table.size[leader] = count
    table.start[leader, count] = position


@njit
def _add_up(table: Leaders, leader: int) -> None:
    """Sums of money and rate along a row, and common divisors from its end."""
    size = table.size[leader]
    for i in range(size):
        table.spend[leader, i] = table.most[leader, i] * table.price[leader, i]
        table.before[leader, i + 1] = table.before[leader, i] + table.spend[leader, i]
        # Whole numbers, so that differences are exact; beyond twice the scale more does not matter.
        rate = min(table.most[leader, i] * table.weight[leader, i], 2 * FINE)
        table.served[leader, i + 1] = table.served[leader, i] + np.int64(rate)
    for i in range(size - 1, -1, -1):
        table.common[leader, i] = gcd(table.price[leader, i], table.common[leader, i + 1])


@njit
def most_rate(before: Ints, served: Ints, per_price: Floats, size: int, start: int, money: int) -> float:
    """Most rate that `money` buys of the free types from a position on, fractions of instances allowed.

    The first three are a leader's rows: the whole table is too large to be passed at every node.
    """
    low, high = start, size
    money += before[start]
    while low < high:  # the first position that money does not buy whole
        middle = (low + high) // 2
        if before[middle + 1] < money:
            low = middle + 1
        else:
            high = middle
    rate = float(served[low] - served[start])
    if low < size:
        rate += (money - before[low]) * per_price[low]
    return rate


@njit
def least_money(before: Ints, served: Ints, per_price: Floats, size: int, start: int, rate: float) -> float:
    """Least money for which the free types from a position on serve `rate`, fractions allowed; inf: none is enough."""
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
