"""Service times that joining policies plan with, and searches in them: infinite ones are not to be used."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from hetserve.compiled import njit_inner
from hetserve.dispatch.joining.arrays import JoiningArguments
from hetserve.dispatch.kernel import Floats, Integers, QueueArrays


def rising(mean: NDArray[np.float64]) -> NDArray[np.float64]:
    """Running maxima over the size: more items never take less time (SuperServe section 4.2, P1)."""
    return np.maximum.accumulate(mean, axis=-1)


def pareto(mean: NDArray[np.float64]) -> NDArray[np.float64]:
    """Times of the variants that are worth using: running maxima over size and accuracy (SuperServe section 4.2).

    mean: [type, variant, items - 1]. A variant is infinite on a type where one that is at least as accurate takes at
    most as long at every size (Lemma 4.1): of equal ones the last stays.
    """
    out = rising(mean)
    for table in out:
        for one in range(len(table) - 1):
            if (table[one] >= table[one + 1 :]).all(axis=1).any():
                table[one] = math.inf
    unusable = np.isinf(out)
    worked: NDArray[np.float64] = np.maximum.accumulate(np.where(unusable, 0.0, out), axis=1)
    return np.where(unusable, math.inf, worked)


@njit_inner
def waiting_items(sizes: Integers, most: int) -> int:
    """Items of the queue's first queries, at most so many."""
    items = 0
    for size in sizes:
        if items + size + 1 > most:
            break
        items += size + 1
    return items


@njit_inner
def heads_within(most: int, row: int, queue: QueueArrays, asking: JoiningArguments) -> int:
    """First queries that have at most so many items together, at least one, and that a row of the times can serve."""
    mean, items, waiting = asking.model.mean, 0, len(queue.sizes)
    for k in range(waiting):
        items += queue.sizes[k] + 1
        if (k > 0 and items > most) or items > mean.shape[1] or mean[row, items - 1] == math.inf:
            return k
    return waiting


@njit_inner
def able_variant(type_: int, queue: QueueArrays, asking: JoiningArguments) -> int:
    """The most accurate variant by which a type can serve the head; -1: none."""
    for variant in range(asking.model.variants - 1, -1, -1):
        if asking.model.mean[type_ * asking.model.variants + variant, queue.sizes[0]] < math.inf:
            return variant
    return -1


@njit_inner
def largest_within(slack: float, times: Floats, least: int, most: int) -> int:
    """Most items in least..most with a time within the slack [s]; 0: none. times: [items - 1], rising."""
    low, high = least - 1, most
    while low < high:
        middle = (low + high + 1) // 2
        if times[middle - 1] <= slack:
            low = middle
        else:
            high = middle - 1
    return low if low >= least else 0


@njit_inner
def most_accurate_within(slack: float, type_: int, items: int, asking: JoiningArguments) -> int:
    """Most accurate variant that serves so many items within the slack [s]; -1: none."""
    for variant in range(asking.model.variants - 1, -1, -1):
        if asking.model.mean[type_ * asking.model.variants + variant, items - 1] <= slack:
            return variant
    return -1


@njit_inner
def fastest(type_: int, least: int, most: int, asking: JoiningArguments) -> tuple[int, int, float]:
    """As many items of least..most as the type serves at all, by the variant that serves them soonest; 0 items: none.

    Of equal variants the more accurate. What a rule answers when nothing can be in time.
    """
    for items in range(most, least - 1, -1):
        best, soonest = -1, math.inf
        for variant in range(asking.model.variants):
            time = asking.model.mean[type_ * asking.model.variants + variant, items - 1]
            if time <= soonest and time < math.inf:
                best, soonest = variant, time
        if best >= 0:
            return best, items, math.inf
    return 0, 0, math.inf


def throughputs(table: NDArray[np.float64], slo: float) -> NDArray[np.float64]:
    """[type, variant] items/s of one instance at the size within the SLO that makes most of it; 0: none is."""
    items = np.arange(1, table.shape[-1] + 1)
    best: NDArray[np.float64] = np.where(table <= slo, items / table, 0.0).max(axis=-1)
    return best


@njit_inner
def total_throughput(variant: int, types: Integers, asking: JoiningArguments) -> float:
    """Items/s of instances of these types together: the policy's parameters begin with [type, variant] items/s."""
    total = 0.0
    for type_ in types:
        total += asking.parameters[type_ * asking.model.variants + variant]
    return total


@njit_inner
def due_before(time: float, deadlines: Floats) -> int:
    """How many of these deadlines, which rise, are before a time: a histogram's bin is the difference of two."""
    low, high = 0, deadlines.shape[0]
    while low < high:
        middle = (low + high) // 2
        if deadlines[middle] < time:
            low = middle + 1
        else:
            high = middle
    return low
