"""First come, first served: the head of the queue goes to an idle instance (Ribbon).

Idle instances in the order of Kairos's C_j, base first, ties by index, as in the artifact.
"""

from __future__ import annotations

import math

from hetserve.compiled import njit_inner
from hetserve.dispatch.interface import Policy
from hetserve.dispatch.kernel import KernelArguments, QueueArrays, WorkerArrays


@njit_inner
def decide(
    now: float,  # noqa: ARG001
    queue: QueueArrays,
    workers: WorkerArrays,
    arguments: KernelArguments,
) -> tuple[int, int, float]:
    model, answer = arguments.model, arguments.answer
    if queue.sizes.shape[0] == 0:
        return 0, 0, math.inf
    size = queue.sizes[0]
    best = -1
    for j in range(workers.types.shape[0]):
        kind = workers.types[j]
        if (
            not workers.busy[j]
            and model.mean[kind, size] < math.inf
            and (best < 0 or model.coefficients[kind] > model.coefficients[workers.types[best]])
        ):
            best = j
    if best < 0:
        return 0, 0, math.inf
    answer.pairs[0, 0] = 0
    answer.pairs[0, 1] = best
    return 1, 0, math.inf


def policy() -> Policy:
    return Policy("fcfs", decide, acts_when_all_busy=False)
