"""A policy that holds queries back, asks to be woken, sends and drops several at once: what no registered one does."""

from __future__ import annotations

import math

from hetserve.compiled import njit
from hetserve.dispatch import Policy
from hetserve.dispatch.kernel import KernelArguments, QueueArrays, WorkerArrays


@njit
def _decide(
    now: float, queue: QueueArrays, workers: WorkerArrays, arguments: KernelArguments
) -> tuple[int, int, float]:
    mean, hold, answer, n = arguments.model.mean, arguments.parameters[0], arguments.answer, workers.types.shape[0]
    sent, dropped, worker, wake_at = 0, 0, 0, math.inf
    for i in range(queue.sizes.shape[0]):
        if now >= queue.deadlines[i]:
            if dropped < n:
                answer.drops[dropped] = i
                dropped += 1
            continue
        wake_at = min(wake_at, queue.deadlines[i])
        if now < queue.arrivals[i] + hold:
            wake_at = min(wake_at, queue.arrivals[i] + hold)
            continue
        while worker < n and (workers.busy[worker] or mean[workers.types[worker], queue.sizes[i]] == math.inf):
            worker += 1
        if worker < n:
            answer.pairs[sent, 0], answer.pairs[sent, 1] = i, worker
            sent, worker = sent + 1, worker + 1
    return sent, dropped, wake_at


def holding(hold: float) -> Policy:
    """Serves a query once it has waited for `hold` seconds, and drops it at its deadline."""
    return Policy("holding", _decide, (hold,))
