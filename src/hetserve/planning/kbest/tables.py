"""Per leader, its free types by falling rate per price; in NumPy, which compiles nothing."""

from __future__ import annotations

from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from hetserve.planning.kbest.grid import FINE
from hetserve.planning.kbest.space import Floats, Ints

A = TypeVar("A", Ints, Floats)
Places = tuple[NDArray[np.intp], ...]


class Leaders(NamedTuple):
    """One row per auxiliary type; positions along a row are its free types, best rate per price first.

    A configuration's leader is its first present type in the order of `Space.leading`. One instance of it (or `least`)
    is placed beforehand; types before it are absent, others free. entry, first: cost and rate of what is placed. size:
    positions; -1: it cannot lead. column, price, weight, most: of a free type, most beyond what is placed. before,
    served: cost and rate of all earlier positions at their most. common: greatest common divisor of the prices from a
    position on. placed: by column.
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
    before: Ints
    served: Ints
    common: Ints
    placed: Ints


class Equals(NamedTuple):
    """How merged positions spread over their types, one row per leader.

    size: types. column, most: of a type. group: its merged position. behind: most instances of later types of its
    group.
    """

    size: Ints
    column: Ints
    most: Ints
    group: Ints
    behind: Ints


class ByColumn(NamedTuple):
    """A leader's positions by column; greatest common divisor of the prices from each on."""

    order: Ints
    common: Ints


def lay_out(prices: Ints, least: Ints, most: Ints, order: Ints, weights: Floats, slack: Floats) -> Leaders:
    """Leaders of a space. order: auxiliaries as they lead; weights, slack: in fine steps."""
    size = len(order)
    own, rank = np.arange(size), np.argsort(order)
    placed = np.tile(least, (size, 1))
    placed[:, 0] = 0
    placed[own, 1 + own] = np.maximum(least[1:], 1)
    free = rank >= rank[:, None]
    here = np.where(free, placed[:, 1:], 0)
    beyond = np.where(free, np.maximum(most[1:] - here, 0), 0)
    # A type with a minimum leads unless one before it does.
    forced = np.flatnonzero(least[1 + order] > 0)
    can = (rank <= (forced[0] if len(forced) else size)) & (here[own, own] <= most[1:])
    per_price = weights / prices[1:]
    by_worth = np.lexsort(np.broadcast_arrays(rank, prices[1:], -per_price, beyond == 0), axis=1)
    return _assembled(
        entry=here @ prices[1:],
        first=(here * weights).sum(axis=1),
        slack=slack,
        size=np.where(can, (beyond > 0).sum(axis=1), -1),
        column=1 + by_worth,
        price=prices[1 + by_worth],
        weight=np.take_along_axis(weights, by_worth, axis=1),
        per_price=np.take_along_axis(per_price, by_worth, axis=1),
        most=np.take_along_axis(beyond, by_worth, axis=1),
        placed=placed,
    )


def merge_equals(plain: Leaders) -> tuple[Leaders, Equals]:
    """Merges types of equal price and rate into one position: equal choices grow exponentially."""
    first = plain.most > 0
    first[:, 1:] &= (np.diff(plain.price) != 0) | (np.diff(plain.weight) != 0)
    group = np.cumsum(first, axis=1) - 1
    source = np.nonzero(first)
    target = source[0], group[source]
    most = np.zeros_like(plain.most)
    np.add.at(most, (np.arange(len(group))[:, None], group), plain.most)
    merged = _assembled(
        entry=plain.entry,
        first=plain.first,
        slack=plain.slack,
        size=np.where(plain.size < 0, -1, first.sum(axis=1)),
        column=_moved(plain.column, source, target),
        price=_moved(plain.price, source, target),
        weight=_moved(plain.weight, source, target),
        per_price=_moved(plain.per_price, source, target),
        most=most,
        placed=plain.placed,
    )
    behind = np.take_along_axis(np.cumsum(most, axis=1), group, axis=1) - np.cumsum(plain.most, axis=1)
    return merged, Equals(plain.size, plain.column, plain.most, group, behind)


def _moved(values: A, source: Places, target: Places) -> A:
    moved = np.zeros_like(values)
    moved[target] = values[source]
    return moved


def by_column(table: Leaders) -> ByColumn:
    """Every leader's positions by column, used ones first."""
    used = table.most > 0
    order = np.lexsort((table.column, ~used), axis=1)
    return ByColumn(order, _common(np.take_along_axis(np.where(used, table.price, 0), order, axis=1)))


def _assembled(
    *,
    entry: Ints,
    first: Floats,
    slack: Floats,
    size: Ints,
    column: Ints,
    price: Ints,
    weight: Floats,
    per_price: Floats,
    most: Ints,
    placed: Ints,
) -> Leaders:
    """The table with sums and divisors."""
    # Whole numbers make differences exact; nothing beyond twice the scale matters.
    rates = np.minimum(most * weight, 2 * FINE).astype(np.int64)
    before, served, common = _running(most * price), _running(rates), _common(np.where(most > 0, price, 0))
    return Leaders(entry, first, slack, size, column, price, weight, per_price, most, before, served, common, placed)


def _running(values: Ints) -> Ints:
    """Sums before each position of a row, and the total."""
    sums = np.zeros((values.shape[0], values.shape[1] + 1), np.int64)
    np.cumsum(values, axis=1, out=sums[:, 1:])
    return sums


def _common(prices: Ints) -> Ints:
    """Greatest common divisor of a row from each position on; 0 is neutral."""
    divisors = np.zeros((prices.shape[0], prices.shape[1] + 1), np.int64)
    divisors[:, -2::-1] = np.gcd.accumulate(prices[:, ::-1], axis=1)
    return divisors
