"""DeepRecSys's query distribution: large queries to the base type, others to the auxiliaries, in order of arrival.

`climb` finds the threshold by trial, as in the paper. Idle instances are ordered by Kairos's
C_j.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from hetserve.compiled import njit_inner
from hetserve.dispatch.interface import Policy
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


def policy(size: int = WITHIN_SLO) -> Policy:
    """size: index of the largest batch for auxiliaries; see WITHIN_SLO."""
    if size < WITHIN_SLO:
        raise ValueError(f"size {size}: the index of a batch size, or {WITHIN_SLO} for the largest within the SLO")
    return Policy("threshold", decide, (float(size),), acts_when_all_busy=False)


def climb(measure: Callable[[int], float], sizes: int, start: int, step: int | None = None) -> int:
    """The best threshold (index of a batch size) within 0..sizes-1, by hill climbing that halves its step at a peak.

    step: the first (default: a quarter of the sizes).
    measure: throughput at a threshold [queries/s]; called once each. Raises ValueError for a start outside or a step
    below one.
    """
    step = max(1, sizes // 4) if step is None else step
    if not 0 <= start < sizes or step < 1:
        raise ValueError(f"start={start}, step={step}: need 0 <= start < {sizes} sizes and step >= 1")
    tried: dict[int, float] = {start: measure(start)}
    best = start
    while step >= 1:
        for size in (best - step, best + step):
            if 0 <= size < sizes and size not in tried:
                tried[size] = measure(size)
        better = max(tried, key=lambda size: tried[size])
        if better == best or tried[better] == tried[best]:
            step //= 2
        else:
            best = better
    return best
