"""Kairos's oracle: the makespan of a query sequence that is known in advance (section 7, ORCL).

Sorted by size: a free base instance takes the largest query, a free auxiliary the smallest that it serves within the
SLO.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hetserve.compiled import njit
from hetserve.dispatch.kernel import Floats, Integers
from hetserve.dispatch.latency import LatencyModel, fastest_first


def oracle_throughput(model: LatencyModel, counts: Sequence[int], sizes: ArrayLike) -> float:
    """Queries/s of the oracle: queries / makespan; 0 if some query cannot be served in time.

    counts: by type of the model. sizes: index of each query's batch. Raises ValueError for counts that do not fit, an
    empty sequence, or an index outside the batches.
    """
    ordered, kinds = _check(model, counts, sizes)
    span = float(makespan(ordered, kinds, model.arrays.mean, model.arrays.largest))
    return len(ordered) / span


@njit
def makespan(sizes: Integers, kinds: Integers, mean: Floats, largest: Integers) -> float:
    """Time until the last of these ascending sizes is served; kinds: type by instance. Infinite: never."""
    workers, low, high = kinds.shape[0], 0, sizes.shape[0] - 1
    free = np.zeros(workers)
    retired = 0.0
    while low <= high:
        worker = int(np.argmin(free))
        now = free[worker]
        if now == math.inf:
            return math.inf
        kind = kinds[worker]
        if largest[kind] >= sizes[sizes.shape[0] - 1]:
            free[worker] += mean[kind, sizes[high]]
            high -= 1
        elif largest[kind] >= sizes[low]:
            free[worker] += mean[kind, sizes[low]]
            low += 1
        else:
            retired = max(retired, now)
            free[worker] = math.inf
    for j in range(workers):
        if free[j] < math.inf:
            retired = max(retired, free[j])
    return retired


def reference(model: LatencyModel, counts: Sequence[int], sizes: ArrayLike) -> float:
    ordered, kinds = _check(model, counts, sizes)
    queries, mean, largest = ordered.tolist(), model.arrays.mean, model.arrays.largest
    top, total, span = queries[-1], len(queries), 0.0
    heap = [(0.0, j) for j in range(len(kinds))]
    while queries:
        if not heap:
            return 0.0
        now, j = heapq.heappop(heap)
        if largest[kinds[j]] >= top:
            size = queries.pop()
        elif largest[kinds[j]] >= queries[0]:
            size = queries.pop(0)
        else:
            continue
        heapq.heappush(heap, (now + float(mean[kinds[j], size]), j))
        span = max(span, now + float(mean[kinds[j], size]))
    return total / span


def _check(model: LatencyModel, counts: Sequence[int], sizes: ArrayLike) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    ordered = np.sort(np.asarray(sizes, dtype=np.int64))
    if len(counts) != len(model.types) or any(count < 0 for count in counts) or sum(counts) == 0:
        raise ValueError(f"counts {list(counts)}: need {len(model.types)} of at least 0, one per type, not all 0")
    if len(ordered) == 0 or ordered[0] < 0 or ordered[-1] >= len(model.batches):
        raise ValueError(f"sizes must be indices of the {len(model.batches)} batches, at least one")
    order = fastest_first(model.arrays.mean)
    return ordered, np.repeat(order, np.array(counts)[order])
