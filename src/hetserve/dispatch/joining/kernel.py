"""The decision of the joining family, compiled: drops what is hopeless, and asks the rule for each idle instance."""

from __future__ import annotations

import math

from hetserve.compiled import njit_inner
from hetserve.dispatch.joining.arrays import FleetArrays, JoiningArguments
from hetserve.dispatch.joining.fang import FANG, FANG_FIXED, choose_fang, choose_fang_fixed
from hetserve.dispatch.joining.fang_rl import FANG_RL, choose_learned
from hetserve.dispatch.joining.rate_fit import RATE_FIT, choose_rate_fit
from hetserve.dispatch.joining.recent import advance
from hetserve.dispatch.joining.superserve import (
    COARSE,
    FIXED,
    MAX_ACCURACY,
    SLACKFIT,
    choose_coarse,
    choose_fixed,
    choose_max_accuracy,
    choose_max_batch,
    choose_slackfit,
)
from hetserve.dispatch.joining.times import heads_within
from hetserve.dispatch.kernel import QueueArrays


@njit_inner
def _choose(  # noqa: PLR0911
    now: float, worker: int, queue: QueueArrays, workers: FleetArrays, asking: JoiningArguments
) -> tuple[int, int, float]:
    """By the policy's rule."""
    if asking.rule == FANG_FIXED:
        return choose_fang_fixed(now, worker, queue, workers, asking)
    if asking.rule == FANG:
        return choose_fang(now, worker, queue, workers, asking)
    if asking.rule == FANG_RL:
        return choose_learned(now, worker, queue, workers, asking)
    if asking.rule == RATE_FIT:
        return choose_rate_fit(now, worker, queue, workers, asking)
    if asking.rule == SLACKFIT:
        return choose_slackfit(now, worker, queue, workers, asking)
    if asking.rule == MAX_ACCURACY:
        return choose_max_accuracy(now, worker, queue, workers, asking)
    if asking.rule == FIXED:
        return choose_fixed(now, worker, queue, workers, asking)
    if asking.rule == COARSE:
        return choose_coarse(now, worker, queue, workers, asking)
    return choose_max_batch(now, worker, queue, workers, asking)


@njit_inner
def decide(now: float, queue: QueueArrays, workers: FleetArrays, asking: JoiningArguments) -> tuple[int, int, float]:
    """How many of the first queries are joined, or dropped, and when to ask again [s].

    answer.pairs[0]: the variant that serves those that are joined, and the instance.
    """
    advance(now, asking.recent)
    if asking.drops:
        hopeless = _hopeless(now, queue, asking)
        if hopeless > 0:
            return 0, hopeless, math.inf
    wake_at = math.inf
    for worker in range(workers.types.shape[0]):
        if workers.busy[worker]:
            continue
        variant, most, asked = _choose(now, worker, queue, workers, asking)
        if most > 0:
            joined = heads_within(most, workers.types[worker] * asking.model.variants + variant, queue, asking)
            if joined > 0:
                asking.answer.pairs[0, 0] = variant
                asking.answer.pairs[0, 1] = worker
                return joined, 0, math.inf
        wake_at = min(wake_at, asked)
    return 0, 0, wake_at


@njit_inner
def _hopeless(now: float, queue: QueueArrays, asking: JoiningArguments) -> int:
    """First queries that not even the fastest variant, alone, answers before the answer is worth nothing."""
    mean, left, waiting = asking.model.mean, asking.model.grace - now, len(queue.sizes)
    for k in range(waiting):
        for row in range(mean.shape[0]):
            if mean[row, queue.sizes[k]] <= queue.deadlines[k] + left:
                return k
    return waiting
