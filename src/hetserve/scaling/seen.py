"""What windows and the trend of a demand say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from hetserve.base.units import QPS, Seconds
from hetserve.demand.observed import Demand
from hetserve.demand.windows import trend

TREND_WINDOW: Final = Seconds(180.0)
"""Least time over which a trend is measured."""
MOST_GROWTH: Final = 2.0
"""Times the present load that a trend may make of it."""
_MOMENT: Final = Seconds(1e-3)
"""What a window of 0 s looks back, to see whether the newest sample still holds."""


def over(extreme: Callable[[Demand, Seconds], QPS | None], demand: Demand, window: Seconds) -> QPS | None:
    """An extreme of a window; of one of 0 s, the newest sample."""
    if window > 0:
        return extreme(demand, window)
    known = extreme(demand, _MOMENT)
    return None if known is None or demand.latest is None else demand.latest.qps


def rise(demand: Demand, window: Seconds, launch: Seconds, low: QPS) -> QPS:
    """Queries/s that the trend adds to `low` in `launch` seconds; what noise explains, or a fall, adds none.

    window: of scaling up [s].
    """
    if launch <= 0:
        return QPS(0.0)
    line = trend(demand, max(TREND_WINDOW, window))
    slope = 0.0 if line is None else max(line.at_least(2.0), 0.0)
    return QPS(min(slope * launch, (MOST_GROWTH - 1) * low))
