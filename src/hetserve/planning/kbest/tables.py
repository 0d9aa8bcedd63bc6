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
    entry, first: cost and rate of what is placed beforehand. size: free types, -1: it cannot lead. column, price,
    weight, most: of a free type, most beyond what is placed. spend: cost of most. before, served: cost and rate of most
    of every position before one. common: greatest common divisor of the prices from a position on.
    """

    entry: Ints
    first: Floats
    slack: Floats
    size: Ints
    column: Ints
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
def lay_out(prices: Ints, least: Ints, most: Ints, order: Ints, weights: Floats, slack: Floats) -> Leaders:
    """Leaders of a space. order: auxiliaries as they lead; weights and slack in fine steps."""
    size = len(order)
    ints, floats = (size, size), (size, size)
    table = Leaders(
        np.zeros(size, np.int64),
        np.zeros(size),
        slack,
        np.full(size, -1, np.int64),
        np.zeros(ints, np.int64),
        np.zeros(ints, np.int64),
        np.zeros(floats),
        np.zeros(floats),
        np.zeros(ints, np.int64),
        np.zeros(ints, np.int64),
        np.zeros((size, size + 1), np.int64),
        np.zeros((size, size + 1), np.int64),
        np.zeros((size, size + 1), np.int64),
        np.zeros((size, size + 1), np.int64),
    )
    for rank in range(size):
        leader = order[rank]
        table.placed[leader, 1:] = least[1:]
        table.placed[leader, 1 + leader] = max(least[1 + leader], 1)
        if table.placed[leader, 1 + leader] <= most[1 + leader]:
            _fill(table, leader, order[rank:], prices, most, weights[leader])
        if least[1 + leader] > 0:
            break  # a type that must be there leads wherever none before it does
    return table


@njit
def _fill(table: Leaders, leader: int, free: Ints, prices: Ints, most: Ints, weights: Floats) -> None:
    """One leader's row: what is placed, then its free types in order."""
    worth = np.array([-weights[j] / prices[1 + j] for j in free])
    by_worth = np.argsort(worth, kind="mergesort")
    count = 0
    for at in by_worth:
        j = free[at]
        here = table.placed[leader, 1 + j]
        table.entry[leader] += here * prices[1 + j]
        table.first[leader] += here * weights[j]
        if most[1 + j] <= here:
            continue
        table.column[leader, count] = 1 + j
        table.price[leader, count] = prices[1 + j]
        table.weight[leader, count] = weights[j]
        table.per_price[leader, count] = weights[j] / prices[1 + j]
        table.most[leader, count] = most[1 + j] - here
        table.spend[leader, count] = (most[1 + j] - here) * prices[1 + j]
        table.before[leader, count + 1] = table.before[leader, count] + table.spend[leader, count]
        # Whole numbers, so that differences are exact; beyond twice the scale more does not matter.
        rate = min((most[1 + j] - here) * weights[j], 2 * FINE)
        table.served[leader, count + 1] = table.served[leader, count] + np.int64(rate)
        count += 1
    table.size[leader] = count
    for i in range(count - 1, -1, -1):
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
