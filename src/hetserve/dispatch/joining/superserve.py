"""SuperServe's policies: SlackFit (section 4.2) and what section 6 and Fig. 1 compare it with.

A query's slack is the time to its deadline; that of the queue's head counts. Switches are taken to cost no time.
"""

from __future__ import annotations

import math
from functools import partial

import numpy as np
from numpy.typing import NDArray

from hetserve.compiled import njit_inner
from hetserve.dispatch.joining.arrays import CELLS, FleetArrays, JoiningArguments
from hetserve.dispatch.joining.interface import JoiningPolicy, Prepared, VariantModel
from hetserve.dispatch.joining.times import (
    fastest,
    largest_within,
    most_accurate_within,
    pareto,
    rising,
    throughputs,
    total_throughput,
    waiting_items,
)
from hetserve.dispatch.kernel import Floats, QueueArrays

MAX_BATCH, MAX_ACCURACY, SLACKFIT, FIXED, COARSE = range(5)


@njit_inner
def choose_max_batch(
    now: float, worker: int, queue: QueueArrays, workers: FleetArrays, asking: JoiningArguments
) -> tuple[int, int, float]:
    """As many items as can be in time, then the most accurate variant that still is; late: all by the fastest."""
    type_, slack = workers.types[worker], queue.deadlines[0] - now
    least, most = queue.sizes[0] + 1, waiting_items(queue.sizes, asking.model.mean.shape[1])
    items = 0
    for variant in range(asking.model.variants):
        times = asking.model.mean[type_ * asking.model.variants + variant]
        items = max(items, largest_within(slack, times, least, most))
    if items == 0:
        return fastest(type_, least, most, asking)
    return most_accurate_within(slack, type_, items, asking), items, math.inf


@njit_inner
def choose_max_accuracy(
    now: float, worker: int, queue: QueueArrays, workers: FleetArrays, asking: JoiningArguments
) -> tuple[int, int, float]:
    """The most accurate variant that is in time with the head alone, then as many items as still are."""
    type_, slack = workers.types[worker], queue.deadlines[0] - now
    least, most = queue.sizes[0] + 1, waiting_items(queue.sizes, asking.model.mean.shape[1])
    variant = most_accurate_within(slack, type_, least, asking)
    if variant < 0:
        return fastest(type_, least, most, asking)
    times = asking.model.mean[type_ * asking.model.variants + variant]
    return variant, largest_within(slack, times, least, most), math.inf


@njit_inner
def choose_slackfit(
    now: float, worker: int, queue: QueueArrays, workers: FleetArrays, asking: JoiningArguments
) -> tuple[int, int, float]:
    """What the highest bucket within the slack holds, if the head is in time by it; none is: as `choose_max_batch`.

    Parameters: the number of buckets and, by type, what `_buckets_of` says of each.
    """
    type_, slack, buckets = workers.types[worker], queue.deadlines[0] - now, int(asking.parameters[0])
    first = 1 + 3 * buckets * type_
    for bucket in range(first, first + 3 * buckets, 3):
        if asking.parameters[bucket] <= slack:
            variant = int(asking.parameters[bucket + 1])
            if asking.model.mean[type_ * asking.model.variants + variant, queue.sizes[0]] <= slack:
                return variant, int(asking.parameters[bucket + 2]), math.inf
    return choose_max_batch(now, worker, queue, workers, asking)


@njit_inner
def _by(variant: int, slack: float, type_: int, queue: QueueArrays, asking: JoiningArguments) -> int:
    """As many items as this variant serves in time; late: all that wait."""
    least, most = queue.sizes[0] + 1, waiting_items(queue.sizes, asking.model.mean.shape[1])
    items = largest_within(slack, asking.model.mean[type_ * asking.model.variants + variant], least, most)
    return items if items > 0 else most


@njit_inner
def choose_fixed(
    now: float, worker: int, queue: QueueArrays, workers: FleetArrays, asking: JoiningArguments
) -> tuple[int, int, float]:
    """One variant always."""
    variant = int(asking.parameters[0])
    return variant, _by(variant, queue.deadlines[0] - now, workers.types[worker], queue, asking), math.inf


@njit_inner
def choose_coarse(
    now: float, worker: int, queue: QueueArrays, workers: FleetArrays, asking: JoiningArguments
) -> tuple[int, int, float]:
    """The most accurate variant by which all instances carry the rate of the last whole interval, or most.

    Variants that cannot serve the head here are left out. Parameters: throughputs, headroom.
    """
    recent, headroom = asking.recent, asking.parameters[asking.model.switches.shape[0]]
    rate = headroom * recent.counts[(recent.newest[0] - 1) % CELLS] / recent.width
    best, most, first = 0, -1.0, workers.types[worker] * asking.model.variants
    for variant in range(asking.model.variants - 1, -1, -1):
        if asking.model.mean[first + variant, queue.sizes[0]] == math.inf:
            continue
        carried = total_throughput(variant, workers.types, asking)
        if carried > most:
            best, most = variant, carried
        if carried >= rate:
            best = variant
            break
    return best, _by(best, queue.deadlines[0] - now, workers.types[worker], queue, asking), math.inf


def max_batch() -> JoiningPolicy:
    """Greedily as many queries as can be in time, then the most accurate variant (MaxBatch, Fig. 11c)."""
    return JoiningPolicy("max-batch", MAX_BATCH, _on_the_pareto_set)


def max_accuracy() -> JoiningPolicy:
    """Greedily the most accurate variant that can be in time, then as many queries (MaxAcc, Fig. 11c)."""
    return JoiningPolicy("max-accuracy", MAX_ACCURACY, _on_the_pareto_set)


def slackfit(buckets: float = 16) -> JoiningPolicy:
    """SlackFit. buckets: of equal width in time, from the fastest to the slowest entry. Raises ValueError below 1."""
    if not (buckets >= 1 and buckets == int(buckets)):
        raise ValueError(f"slackfit: buckets {buckets}: must be a whole number from 1 on")
    return JoiningPolicy("slackfit", SLACKFIT, partial(_in_buckets, int(buckets)))


def clipper(variant: str) -> JoiningPolicy:
    """Clipper+: this variant always, by its name."""
    return JoiningPolicy("clipper", FIXED, partial(_by_name, variant))


def infaas(least: float = 0.0) -> JoiningPolicy:
    """INFaaS: the least accurate variant of those with at least so many percent. Raises ValueError outside 0..100."""
    if not 0 <= least <= 100:
        raise ValueError(f"infaas: least {least}: must be between 0 and 100 percent")
    return JoiningPolicy("infaas", FIXED, partial(_least_accurate, least))


def coarse(interval: float = 1.0, headroom: float = 1.0) -> JoiningPolicy:
    """The coarse policy of Fig. 1b. interval: the rate is that of the last whole one [s], times `headroom`.

    Raises ValueError.
    """
    if not 0 < interval < math.inf:
        raise ValueError(f"coarse: interval {interval}: must be a positive number of seconds")
    if not 0 < headroom < math.inf:
        raise ValueError(f"coarse: headroom {headroom}: must be a positive factor")
    return JoiningPolicy("coarse", COARSE, partial(_with_throughputs, interval, headroom))


def _on_the_pareto_set(model: VariantModel) -> Prepared:
    return Prepared(pareto(model.mean))


def _by_name(variant: str, model: VariantModel) -> Prepared:
    return _only(model.index_of(variant), model)


def _least_accurate(least: float, model: VariantModel) -> Prepared:
    allowed = [index for index, one in enumerate(model.variants) if one.accuracy >= least]
    if not allowed:
        best = model.variants[-1]
        raise ValueError(f"infaas: least {least}: no variant is as accurate; the best is {best.name}, {best.accuracy}")
    return _only(allowed[0], model)


def _only(variant: int, model: VariantModel) -> Prepared:
    times = np.full_like(model.mean, math.inf)
    times[:, variant] = rising(model.mean[:, variant])
    return Prepared(times, (variant,))


def _with_throughputs(interval: float, headroom: float, model: VariantModel) -> Prepared:
    times = pareto(model.mean)
    return Prepared(times, np.append(throughputs(times, model.slo), headroom), CELLS * interval)


def _in_buckets(buckets: int, model: VariantModel) -> Prepared:
    times = pareto(model.mean)
    return Prepared(times, np.concatenate(([buckets], *(_buckets_of(each, buckets).ravel() for each in times))))


def _buckets_of(table: NDArray[np.float64], buckets: int) -> Floats:
    """[bucket, (slowest, variant, items)] of a type, the highest first; an empty one is infinitely slow.

    table: [variant, items - 1]. Entries are those of 1, 2, 4, ... items and of the most, as in the paper's profiles. In
    a bucket the most items count, then accuracy.
    """
    out, sizes = np.full((buckets, 3), math.inf), _profiled(table.shape[1])
    entries = [(n, v, float(row[n - 1])) for v, row in enumerate(table) for n in sizes if row[n - 1] < math.inf]
    if not entries:
        return out
    fast, slow = min(time for _, _, time in entries), max(time for _, _, time in entries)
    width = (slow - fast) / buckets
    for bucket in range(buckets):
        held = [each for each in entries if _bucket_of(each[2] - fast, width, buckets) == bucket]
        if held:
            items, variant, _ = max(held)
            out[buckets - 1 - bucket] = max(time for _, _, time in held), variant, items
    return out


def _profiled(most: int) -> list[int]:
    return [*(1 << k for k in range(most.bit_length()) if 1 << k < most), most]


def _bucket_of(time: float, width: float, buckets: int) -> int:
    """time: above the fastest [s]."""
    return min(int(time / width), buckets - 1) if width > 0 else 0
