"""What a service wants measured, and its load as the operator knows it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from hetserve.base.units import QPS, Seconds
from hetserve.demand.observed import Demand, Freshness, RateSample
from hetserve.demand.queries import MetricsQuerySpec
from hetserve_operator.workqueue import Key

Measured = Callable[[Key, datetime], Demand]

WANTED = MetricsQuerySpec(
    "shop",
    "ads",
    slo=Seconds(0.35),
    percentile=0.99,
    window=Seconds(60.0),
    stale_after=Seconds(120.0),
    up_window=Seconds(30.0),
    down_window=Seconds(300.0),
    scales=True,
)


def fresh(rate: Callable[[float], float]) -> Measured:
    """Demand as measured every 5 s for the last ten minutes. rate: queries/s at a time [Unix seconds]."""

    def demand(_key: Key, moment: datetime) -> Demand:
        now = moment.timestamp()
        times = [now - 5 * i for i in reversed(range(120))]
        return Demand(Freshness.FRESH, "", now, tuple(RateSample(t, QPS(rate(t))) for t in times))

    return demand


def steady(qps: float) -> Measured:
    return fresh(lambda _: qps)


def unknown(freshness: Freshness, why: str) -> Measured:
    return lambda _key, moment: Demand(freshness, why, moment.timestamp())
