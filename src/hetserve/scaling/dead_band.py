"""Loads at which a decision stays as it is, so that a measured figure that moves asks for no other pass.

And what the windows and the trend of a demand say.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from hetserve.base.units import QPS, Seconds
from hetserve.demand.measured_mix import moved_mix
from hetserve.demand.mix import BatchMix
from hetserve.demand.observed import Demand, Freshness
from hetserve.demand.windows import attained_below, highest, lowest, surely_missed, trend

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


NO_LOAD: Final = -1.0
"""Queries/s that every load is above."""


@dataclass(frozen=True, slots=True)
class DeadBand:
    """Of a service whose instances all serve and carry its load, or that waits for an answer which no load changes.

    above: queries/s; at a largest load of `down` seconds that is not above it, fewer instances may do. most: queries/s;
    a load of `up` seconds, or what its trend leads to in `launch` seconds, that is higher needs more. share: of queries
    that must meet the SLO. until: queries/s; a largest load above it needs what the minimum keeps. mix: by which all
    this is meant; None: whatever the mix. holds: queries/s; the newest rate, where it is higher, is not carried.
    """

    above: QPS
    most: QPS
    up: Seconds
    down: Seconds
    launch: Seconds
    share: float
    until: QPS = QPS(math.inf)
    mix: BatchMix | None = None
    holds: QPS = QPS(math.inf)

    def covers(self, demand: Demand) -> bool:
        """Whether the decision is the same for this demand, what limits it, and whether the load is carried."""
        newest = demand.latest
        if demand.freshness is not Freshness.FRESH or newest is None or newest.qps > self.holds:
            return False
        low, high = over(lowest, demand, self.up), over(highest, demand, self.down)
        if low is None or high is None or attained_below(demand, self.share, max(self.up, demand.step)):
            return False
        if self.until < math.inf and surely_missed(demand, self.share, Seconds(0.0)):
            return False  # while in doubt nobody says that the minimum limits
        if self.mix is not None and moved_mix(self.mix, demand) is not None:
            return False
        forecast = low + rise(demand, self.up, self.launch, low)
        return self.above < max(high, forecast) <= self.until and forecast <= self.most
