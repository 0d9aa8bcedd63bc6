"""Our policy: the most accurate variant that carries the demand, as the recent rate and the queue show it.

Greedy policies serve by the head's slack alone: while it is long they begin long batches, and a burst finds all
instances busy with them.
"""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from hetserve.compiled import njit_inner
from hetserve.dispatch.joining.arrays import CELLS, FleetArrays, JoiningArguments
from hetserve.dispatch.joining.interface import JoiningPolicy, Prepared, VariantModel
from hetserve.dispatch.joining.recent import recent_rate
from hetserve.dispatch.joining.times import (
    fastest,
    largest_within,
    pareto,
    throughputs,
    total_throughput,
    waiting_items,
)
from hetserve.dispatch.kernel import QueueArrays

RATE_FIT = 10


@njit_inner
def choose_rate_fit(
    now: float, worker: int, queue: QueueArrays, workers: FleetArrays, asking: JoiningArguments
) -> tuple[int, int, float]:
    """The most accurate variant that is in time and carries the demand, or the one that carries most.

    Parameters: throughputs, share of the rate, seconds within which the queue is served, longest batch [s].
    """
    model, type_, slack = asking.model, workers.types[worker], queue.deadlines[0] - now
    least, most = queue.sizes[0] + 1, waiting_items(queue.sizes, model.mean.shape[1])
    share, horizon, longest = asking.parameters[model.switches.shape[0] : model.switches.shape[0] + 3]
    waiting = queue.sizes.sum() + queue.sizes.shape[0]
    demand = share * recent_rate(now, CELLS, asking.recent) + waiting / horizon
    best, items, highest = -1, 0, 0.0
    for variant in range(model.variants - 1, -1, -1):
        row = type_ * model.variants + variant
        switch = model.switches[row] if workers.variants[worker] not in (-1, variant) else 0.0
        within = largest_within(slack - switch, model.mean[row], least, most)
        if within == 0:
            continue
        carried, time = total_throughput(variant, workers.types, asking), model.mean[row, within - 1] + switch
        fits = True
        if within < most:  # then the slack bounds what is made of the variant
            carried *= min(1.0, within / time / asking.parameters[row]) if asking.parameters[row] > 0 else 0.0
            fits = time <= longest
        if fits and carried >= demand:
            return variant, within, math.inf
        if carried > highest or best < 0:
            best, items, highest = variant, within, carried
    if best < 0:
        return fastest(type_, least, most, asking)
    return best, items, math.inf


def rate_fit(share: float = 0.6, window: float = 5.0, horizon: float = 0.8, longest: float = 0.75) -> JoiningPolicy:
    """Demand is `share` of the rate over the last `window` SLOs, and what waits within `horizon` SLOs.

    longest: batch that is begun while a faster variant would join more [SLOs]. Raises ValueError for a setting that is
    not positive.
    """
    settings = {"share": share, "window": window, "horizon": horizon, "longest": longest}
    for name, value in settings.items():
        if not 0 < value < math.inf:
            raise ValueError(f"rate-fit: {name} {value}: must be positive")
    return JoiningPolicy("rate-fit", RATE_FIT, partial(_prepared, share, window, horizon, longest))


def _prepared(share: float, window: float, horizon: float, longest: float, model: VariantModel) -> Prepared:
    times, slo = pareto(model.mean), model.slo
    settings = (share, horizon * slo, longest * slo)
    return Prepared(times, np.concatenate((throughputs(times, slo).ravel(), settings)), window * slo)
