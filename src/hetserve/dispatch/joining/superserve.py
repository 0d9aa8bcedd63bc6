"""SuperServe's policies: SlackFit (section 4.2) and what section 6 compares it with.

A query's slack is the time to its deadline; the slack of the queue's head counts. Switches are taken to cost no time.
"""

from __future__ import annotations

import math

from hetserve.compiled import njit_inner
from hetserve.dispatch.joining.arrays import FleetArrays, JoiningArguments
from hetserve.dispatch.joining.interface import JoiningPolicy, Prepared, VariantModel
from hetserve.dispatch.joining.times import fastest, largest_within, most_accurate_within, pareto, row_of, waiting_items
from hetserve.dispatch.kernel import QueueArrays

MAX_BATCH = 0


@njit_inner
def choose_max_batch(
    now: float, worker: int, queue: QueueArrays, workers: FleetArrays, asking: JoiningArguments
) -> tuple[int, int, float]:
    """As many items as can be in time, then the most accurate variant that still is; late: all by the fastest."""
    type_, slack = workers.types[worker], queue.deadlines[0] - now
    least, most = queue.sizes[0] + 1, waiting_items(queue.sizes, asking.model.mean.shape[1])
    items = 0
    for variant in range(asking.model.variants):
        items = max(items, largest_within(slack, row_of(type_, variant, asking), least, most, asking))
    if items == 0:
        return fastest(type_, most, asking), most, math.inf
    return most_accurate_within(slack, type_, items, asking), items, math.inf


def _on_the_pareto_set(model: VariantModel) -> Prepared:
    return Prepared(pareto(model.mean).ravel())


def max_batch() -> JoiningPolicy:
    """Greedily as many queries as can be in time, then the most accurate variant."""
    return JoiningPolicy("max-batch", MAX_BATCH, _on_the_pareto_set)
