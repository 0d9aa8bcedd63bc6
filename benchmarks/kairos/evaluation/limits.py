"""What no online dispatcher exceeds: the paper's oracle and the fluid bound."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

import numpy as np
from benchmarks.kairos.paper.setting import Case, system
from numpy.typing import ArrayLike, NDArray

from hetserve.dispatch.latency import LatencyModel, fastest_first
from hetserve.dispatch.lp import fluid_bound
from hetserve.planning import Counts
from hetserve.simulation.workload import draw_workload


def oracle(case: Case, counts: Counts, queries: int = 100_000, seed: int = 11) -> float:
    """Queries/s of the oracle, which knows all queries in advance."""
    sizes = draw_workload(case.mix, queries, seed).sizes
    return oracle_throughput(system(case).predicted, [n for _, n in counts], sizes)


def oracle_throughput(model: LatencyModel, counts: Sequence[int], sizes: ArrayLike) -> float:
    """Queries/s of Kairos's oracle (section 7, ORCL): queries / makespan; 0 if some query cannot be served in time.

    A free base instance, of a type that serves all within the SLO, takes the largest query, a free auxiliary the
    smallest that it serves within the SLO. counts: by type of the model. sizes: index of each query's batch. Raises
    ValueError for counts that do not fit, an empty sequence, or an index outside the batches.
    """
    queries = np.asarray(sizes, dtype=np.int64)
    _refuse_misfits(model, counts, queries)
    left = np.bincount(queries, minlength=len(model.batches)).tolist()
    mean = model.arrays.mean.tolist()
    there = [size for size, n in enumerate(left) if n]
    in_time = [[size for size in there if row[size] <= model.arrays.slo] for row in mean]
    nexts = [found if len(found) == len(there) else found[::-1] for found in in_time]
    kinds = [kind for kind in fastest_first(model.arrays.mean).tolist() for _ in range(counts[kind])]
    free, span, waiting = [(0.0, j) for j in range(len(kinds))], 0.0, len(queries)
    while waiting:
        if not free:
            return 0.0
        now, j = heapq.heappop(free)
        mine = nexts[kinds[j]]
        while mine and not left[mine[-1]]:
            mine.pop()
        if mine:
            left[mine[-1]] -= 1
            waiting -= 1
            end = now + mean[kinds[j]][mine[-1]]
            heapq.heappush(free, (end, j))
            span = max(span, end)
    return len(queries) / span


def _refuse_misfits(model: LatencyModel, counts: Sequence[int], queries: NDArray[np.int64]) -> None:
    if len(counts) != len(model.types) or any(count < 0 for count in counts) or sum(counts) == 0:
        raise ValueError(f"counts {list(counts)}: need {len(model.types)} of at least 0, one per type, not all 0")
    if len(queries) == 0 or queries.min() < 0 or queries.max() >= len(model.batches):
        raise ValueError(f"sizes must be indices of the {len(model.batches)} batches, at least one")


def fluid(case: Case, counts: Counts, drop: float = 0.0) -> float:
    """Queries/s of the fluid bound; drop: share of queries."""
    return fluid_bound(system(case).predicted, [n for _, n in counts], case.mix, drop)
