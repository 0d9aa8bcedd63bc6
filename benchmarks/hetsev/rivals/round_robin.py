"""Round robin: each query joins the line of the next instance, whether that is idle or not (kube-proxy, mode IPVS)."""

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
    """Binds the oldest query to the instance whose turn it is; parameters: queries sent so far, which a run counts."""
    instances = workers.types.shape[0]
    if queue.sizes.shape[0] == 0 or instances == 0:
        return 0, 0, math.inf
    sent = arguments.parameters
    arguments.answer.pairs[0, 0] = 0
    arguments.answer.pairs[0, 1] = int(sent[0]) % instances
    sent[0] += 1
    return 1, 0, math.inf


def round_robin() -> Policy:
    """For instances of one service; queries that an instance has taken stay in its line."""
    return Policy("round-robin", decide, (0.0,))
