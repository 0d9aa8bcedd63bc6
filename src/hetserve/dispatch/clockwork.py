"""Clockwork's query distribution as Kairos compares with it: each query joins an instance's queue on arrival.

The paper leaves open which instance within the SLO is chosen: the one that finishes first (earliest completion), or the
one that starts first, the base on ties (least wait, the stronger). Else both choose the earliest completion.
"""

from __future__ import annotations

import math

from hetserve.compiled import njit_inner
from hetserve.dispatch.interface import Policy
from hetserve.dispatch.kernel import KernelArguments, QueueArrays, WorkerArrays


@njit_inner
def decide(now: float, queue: QueueArrays, workers: WorkerArrays, arguments: KernelArguments) -> tuple[int, int, float]:
    """Binds the oldest query to an instance; parameters: least wait (1) or not (0)."""
    model, parameters, answer = arguments.model, arguments.parameters, arguments.answer
    if queue.sizes.shape[0] == 0:
        return 0, 0, math.inf
    size, deadline = queue.sizes[0], queue.deadlines[0]
    best, earliest, best_weight = -1, math.inf, -math.inf
    fallback, first_end = -1, math.inf
    for j in range(workers.types.shape[0]):
        kind = workers.types[j]
        start = max(workers.free_at[j], now) if workers.busy[j] else now
        end, weight = start + model.mean[kind, size], model.coefficients[kind]
        if end < first_end:
            fallback, first_end = j, end
        key = start if parameters[0] > 0 else end
        if end <= deadline and (key < earliest or (key == earliest and weight > best_weight)):
            best, earliest, best_weight = j, key, weight
    if best < 0:
        best = fallback
    if best < 0:
        return 0, 0, math.inf
    answer.pairs[0, 0] = 0
    answer.pairs[0, 1] = best
    return 1, 0, math.inf


def earliest_completion() -> Policy:
    """Of the instances within the SLO, the one that finishes first."""
    return Policy("clockwork-earliest", decide, (0.0,))


def least_wait() -> Policy:
    """Of the instances within the SLO, the one with the least wait, the base on ties."""
    return Policy("clockwork-least-wait", decide, (1.0,))
