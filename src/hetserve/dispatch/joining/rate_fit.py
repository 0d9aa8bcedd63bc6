"""Our policy: the most accurate variant that carries the demand, as the rate and the queue show it."""

from __future__ import annotations

import math
from functools import partial

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
    """The most accurate variant that is in time and carries the demand; if none does, the most items in time."""
    model, type_, slack = asking.model, workers.types[worker], queue.deadlines[0] - now
    least, most = queue.sizes[0] + 1, waiting_items(queue.sizes, model.mean.shape[1])
    settings = model.switches.shape[0]
    share, horizon = asking.parameters[settings], asking.parameters[settings + 1]
    demand = share * recent_rate(now, CELLS, asking.recent) + len(queue.sizes) / horizon
    best, items = -1, 0
    for variant in range(model.variants - 1, -1, -1):
        left = slack
        if workers.variants[worker] not in (-1, variant):
            left -= model.switches[type_ * model.variants + variant]
        within = largest_within(left, model.mean[type_ * model.variants + variant], least, most)
        if within > 0 and total_throughput(variant, workers.types, asking) >= demand:
            return variant, within, math.inf
        if within > items:
            best, items = variant, within
    if best < 0:
        return fastest(type_, least, most, asking)
    return best, items, math.inf


def rate_fit(share: float = 0.6, window: float = 8.3, horizon: float = 0.83) -> JoiningPolicy:
    """Demand is `share` of the rate over the last `window` SLOs, and what waits within `horizon` SLOs.

    Raises ValueError for a setting that is not positive.
    """
    for name, value in (("share", share), ("window", window), ("horizon", horizon)):
        if not 0 < value < math.inf:
            raise ValueError(f"rate-fit: {name} {value}: must be positive")
    return JoiningPolicy("rate-fit", RATE_FIT, partial(_prepared, share, window, horizon))


def _prepared(share: float, window: float, horizon: float, model: VariantModel) -> Prepared:
    times = pareto(model.mean)
    parameters = (*throughputs(times, model.slo).ravel(), share, horizon * model.slo)
    return Prepared(times, parameters, window * model.slo)
