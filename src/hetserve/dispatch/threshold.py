"""DeepRecSys's query distribution: large queries to the base type, others to the auxiliaries, in order of arrival.

`hetserve.dispatch.hill_climbing` finds the threshold by trial, as in the paper. Idle instances are ordered by Kairos's
C_j.
"""

from __future__ import annotations

import math
from typing import Final

from hetserve.compiled import njit_inner
from hetserve.dispatch.interface import Dispatch, DispatchDecision, DispatchSnapshot, Policy, Query, Worker
from hetserve.dispatch.kernel import KernelArguments, ModelArrays, QueueArrays, WorkerArrays

WITHIN_SLO: Final = -1
"""What every auxiliary type serves within the SLO is small, all else is large."""


@njit_inner
def decide(
    now: float,  # noqa: ARG001
    queue: QueueArrays,
    workers: WorkerArrays,
    arguments: KernelArguments,
) -> tuple[int, int, float]:
    """Dispatches the oldest query whose pool has an idle instance; parameters: index of the largest auxiliary size."""
    model, parameters, answer = arguments.model, arguments.parameters, arguments.answer
    n = workers.types.shape[0]
    limit, bases = int(parameters[0]), _bases(workers, model)
    one_pool = bases in (0, n)
    blocked_small = blocked_large = False
    for i in range(queue.sizes.shape[0]):
        large = not one_pool and _is_large(queue.sizes[i], limit, workers, model)
        if blocked_large if large else blocked_small:
            continue
        worker = _best_idle(queue.sizes[i], large, one_pool, workers, model)
        if worker >= 0:
            answer.pairs[0, 0] = i
            answer.pairs[0, 1] = worker
            return 1, 0, math.inf
        blocked_large |= large or one_pool
        blocked_small |= not large
        if blocked_large and blocked_small:
            break
    return 0, 0, math.inf


@njit_inner
def _best_idle(size: int, large: bool, one_pool: bool, workers: WorkerArrays, model: ModelArrays) -> int:
    """Idle instance of the pool with the largest C_j, ties to the first; -1: none."""
    best, most = -1, -math.inf
    for j in range(workers.types.shape[0]):
        kind = workers.types[j]
        weight = model.coefficients[kind]
        if workers.busy[j] or weight <= most or model.mean[kind, size] == math.inf:
            continue
        if one_pool or (weight >= 1.0) == large:
            best, most = j, weight
    return best


@njit_inner
def _bases(workers: WorkerArrays, model: ModelArrays) -> int:
    """Number of base instances (C_j >= 1)."""
    bases = 0
    for j in range(workers.types.shape[0]):
        bases += model.coefficients[workers.types[j]] >= 1.0
    return bases


@njit_inner
def _is_large(size: int, limit: int, workers: WorkerArrays, model: ModelArrays) -> bool:
    """Whether a size is for base instances: above the limit, or too slow on some auxiliary type."""
    if limit >= 0:
        return size > limit
    for j in range(workers.types.shape[0]):
        kind = workers.types[j]
        if model.coefficients[kind] < 1.0 and model.mean[kind, size] > model.slo:
            return True
    return False


def reference(snapshot: DispatchSnapshot, parameters: tuple[float, ...]) -> DispatchDecision:
    arrays = snapshot.model.arrays
    base = {j for j, w in enumerate(snapshot.workers) if arrays.coefficients[w.type] >= 1}
    auxiliary = set(range(len(snapshot.workers))) - base
    for pool, members in _pools(snapshot, base, auxiliary, int(parameters[0])):
        if not members:
            continue
        head = members[0]
        idle = [
            (-float(arrays.coefficients[snapshot.workers[j].type]), j)
            for j in pool
            if not snapshot.workers[j].busy and math.isfinite(_service(snapshot, snapshot.workers[j], head))
        ]
        if idle:
            return DispatchDecision((Dispatch(head.id, min(idle)[1]),))
    return DispatchDecision()


def _pools(
    snapshot: DispatchSnapshot, base: set[int], auxiliary: set[int], limit: int
) -> list[tuple[set[int], list[Query]]]:
    """Workers and waiting queries by pool, the oldest query's first; one pool if the other were empty."""
    if not base or not auxiliary:
        return [(base | auxiliary, list(snapshot.queue))]
    mean, slo = snapshot.model.arrays.mean, snapshot.model.arrays.slo
    kinds = sorted({snapshot.workers[j].type for j in auxiliary})

    def is_large(query: Query) -> bool:
        size = snapshot.model.size_of(query.batch)
        return size > limit if limit >= 0 else bool((mean[kinds, size] > slo).any())

    large = [q for q in snapshot.queue if is_large(q)]
    small = [q for q in snapshot.queue if not is_large(q)]
    pools = [(base, large), (auxiliary, small)]
    return pools if large and large[0] == snapshot.queue[0] else pools[::-1]


def _service(snapshot: DispatchSnapshot, worker: Worker, query: Query) -> float:
    return float(snapshot.model.arrays.mean[worker.type, snapshot.model.size_of(query.batch)])


def policy(size: int = WITHIN_SLO) -> Policy:
    """size: index of the largest batch for auxiliaries; see WITHIN_SLO."""
    if size < WITHIN_SLO:
        raise ValueError(f"size {size}: the index of a batch size, or {WITHIN_SLO} for the largest within the SLO")
    return Policy("threshold", decide, reference, (float(size),))
