"""Kairos's oracle: the makespan of a query sequence that is known in advance (section 7, ORCL).

Sorted by size: a free base instance, of a type that serves all within the SLO, takes the largest query, a free
auxiliary the smallest that it serves within the SLO.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hetserve.compiled import njit
from hetserve.dispatch.kernel import Flags, Floats, Integers
from hetserve.dispatch.latency import LatencyModel, fastest_first


def oracle_throughput(model: LatencyModel, counts: Sequence[int], sizes: ArrayLike) -> float:
    """Queries/s of the oracle: queries / makespan; 0 if some query cannot be served in time.

    counts: by type of the model. sizes: index of each query's batch. Raises ValueError for counts that do not fit, an
    empty sequence, or an index outside the batches.
    """
    ordered, kinds = checked(model, counts, sizes)
    left = np.bincount(ordered, minlength=len(model.batches))
    span = float(makespan(left, kinds, model.arrays.mean, model.arrays.slo))
    return len(ordered) / span


@njit
def makespan(left: Integers, kinds: Integers, mean: Floats, slo: float) -> float:
    """Time until the last query is served; infinite: never. left: queries by size; used up. kinds: type by instance."""
    free = np.zeros(kinds.shape[0])
    base = _bases(left, mean, slo)
    retired, waiting = 0.0, left.sum()
    while waiting > 0:
        worker = int(np.argmin(free))
        now, kind = free[worker], kinds[worker]
        if now == math.inf:
            return math.inf
        size = _next(left, mean[kind], slo, base[kind])
        if size < 0:
            retired = max(retired, now)
            free[worker] = math.inf
            continue
        free[worker] += mean[kind, size]
        left[size] -= 1
        waiting -= 1
    for j in range(free.shape[0]):
        if free[j] < math.inf:
            retired = max(retired, free[j])
    return retired


@njit
def _bases(left: Integers, mean: Floats, slo: float) -> Flags:
    """[type] whether it serves every size that is there within the SLO."""
    base = np.ones(mean.shape[0], np.bool_)
    for kind in range(mean.shape[0]):
        for size in range(left.shape[0]):
            base[kind] &= left[size] == 0 or mean[kind, size] <= slo
    return base


@njit
def _next(left: Integers, mean: Floats, slo: float, largest: bool) -> int:
    """The largest size that is there, or the smallest that is served within the SLO; -1: none."""
    for i in range(left.shape[0]):
        size = left.shape[0] - 1 - i if largest else i
        if left[size] > 0 and mean[size] <= slo:
            return size
    return -1


def checked(
    model: LatencyModel, counts: Sequence[int], sizes: ArrayLike
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The sizes of the queries, sorted, and the type of every instance; raises as above."""
    ordered = np.sort(np.asarray(sizes, dtype=np.int64))
    if len(counts) != len(model.types) or any(count < 0 for count in counts) or sum(counts) == 0:
        raise ValueError(f"counts {list(counts)}: need {len(model.types)} of at least 0, one per type, not all 0")
    if len(ordered) == 0 or ordered[0] < 0 or ordered[-1] >= len(model.batches):
        raise ValueError(f"sizes must be indices of the {len(model.batches)} batches, at least one")
    order = fastest_first(model.arrays.mean)
    return ordered, np.repeat(order, np.array(counts)[order])
