"""Clockwork's query distribution as Kairos compares with it: each query joins an instance's queue on arrival.

The paper leaves open which instance within the SLO is chosen: the one that finishes first (earliest completion), or the
one that starts first, the base on ties (least wait, the stronger). Else both choose the earliest completion.
"""

from __future__ import annotations

import math

from hetserve.compiled import njit_inner
from hetserve.dispatch.interface import Dispatch, DispatchDecision, DispatchSnapshot, Policy, Query, Worker
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


def reference(snapshot: DispatchSnapshot, parameters: tuple[float, ...]) -> DispatchDecision:
    if not snapshot.queue:
        return DispatchDecision()
    query, weights = snapshot.queue[0], snapshot.model.arrays.coefficients
    options = []
    for j, worker in enumerate(snapshot.workers):
        start = max(worker.free_at, snapshot.now) if worker.busy else snapshot.now
        end = start + _service(snapshot, worker, query)
        if math.isfinite(end):
            options.append((start if parameters[0] > 0 else end, -float(weights[worker.type]), j, end))
    in_time = [option for option in options if option[3] <= query.deadline]
    if in_time:
        return DispatchDecision((Dispatch(query.id, min(in_time)[2]),))
    soonest = min(options, key=lambda option: (option[3], option[2]), default=None)
    return DispatchDecision() if soonest is None else DispatchDecision((Dispatch(query.id, soonest[2]),))


def _service(snapshot: DispatchSnapshot, worker: Worker, query: Query) -> float:
    return float(snapshot.model.arrays.mean[worker.type, snapshot.model.size_of(query.batch)])


def earliest_completion() -> Policy:
    """Of the instances within the SLO, the one that finishes first."""
    return Policy("clockwork_earliest", decide, reference, (0.0,))


def least_wait() -> Policy:
    """Of the instances within the SLO, the one with the least wait, the base on ties."""
    return Policy("clockwork_least_wait", decide, reference, (1.0,))
