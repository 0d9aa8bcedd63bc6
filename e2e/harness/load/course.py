"""What was seen of a play, a moment each second, and the figures that follow.

What could not be asked, or had no answer, is nan or None: it is not zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from harness.load.options import Wanted
from hetserve.planning import Problem
from hetserve.planning.plan import Counts, Plan
from hetserve.planning.reach import Capacity

Floats = NDArray[np.float64]
Decision = Mapping[str, Any]
"""An entry of status.lastDecisions, with its second of the play as `at`."""


class Instances(NamedTuple):
    """Pods of one type. leaving: deleted and not gone."""

    ready: int = 0
    launching: int = 0
    leaving: int = 0


@dataclass(frozen=True, slots=True)
class Moment:
    """at: seconds of the play. rate: of the trace, load: measured, planned: that the plan in force was made for
    [queries/s]. cost: micro-dollars/h of all pods. received, ended, in_time (within the SLO): queries since the play's
    begin. lag: seconds by which the twin is behind. instances: by type.
    """

    at: float
    rate: float = math.nan
    load: float = math.nan
    planned: float = math.nan
    cost: float = math.nan
    received: float = math.nan
    ended: float = math.nan
    in_time: float = math.nan
    lag: float = math.nan
    instances: Mapping[str, Instances] | None = None


@dataclass(slots=True)
class Play:
    """statics: plans for the peak that never change, by the share of what they hold that it uses.

    asked: what instances hold, as it is worked out.
    """

    wanted: Wanted
    problem: Problem
    statics: Mapping[float, Plan]
    asked: Callable[[Counts], Future[Capacity]]
    moments: list[Moment] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)

    @property
    def played(self) -> float:
        """Seconds."""
        return self.moments[-1].at if self.moments else 0.0

    def held(self, moment: Moment) -> float:
        """Queries/s that the ready instances of a moment hold; nan: not known, or not yet."""
        if moment.instances is None:
            return math.nan
        ready = ((name, one.ready) for name, one in sorted(moment.instances.items()) if one.ready)
        found = self.asked(tuple(ready))
        return found.result().held if found.done() else math.nan

    def column(self, name: str) -> Floats:
        """A figure of every moment."""
        return np.array([getattr(moment, name) for moment in self.moments], dtype=np.float64)

    def queries(self, which: str, *times: float) -> Floats:
        """Queries until seconds of the play; where it is not known, on a line from what is to what is."""
        seen = self.column(which)
        known = ~np.isnan(seen)
        found: Floats = np.interp(times, [0.0, *self.column("at")[known]], [0.0, *seen[known]])
        return found

    def late(self, *times: float) -> Floats:
        """Share of late ones among the queries that ended between each time and the next; nan: none did."""
        ended, in_time = (np.diff(self.queries(which, *times)) for which in ("ended", "in_time"))
        return np.divide(np.maximum(ended - in_time, 0), ended, out=np.full_like(ended, np.nan), where=ended > 0)

    def sums(self) -> dict[str, float]:
        """What became of the play so far, by the names of its JSON. Money: micro-dollars, over the time of the trace.

        Each known price holds until the next moment; `unpricedSeconds`: seconds without one, not in what was spent.
        """
        lasted, cost, hour = np.diff(self.column("at")), self.column("cost"), 3600 / self.wanted.speed
        return {
            "playedSeconds": self.played,
            "traceHours": self.played / hour,
            **{which: float(self.queries(which, self.played)[0]) for which in ("received", "ended")},
            "lateShare": float(self.late(0, self.played)[0]),
            "allowedShare": round(1 - self.problem.slo.percentile / 100, 9),
            "spent": round(float(np.nansum(cost[:-1] * lasted) / hour)),
            "unpricedSeconds": float(lasted[np.isnan(cost[:-1])].sum()),
            "mostHourly": float(np.fmax.reduce(cost)),
            "budgetHourly": self.problem.budget or 0,
            "twinLagSeconds": float(np.fmax.reduce(self.column("lag"))),
        }
