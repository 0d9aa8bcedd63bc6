"""A Prometheus in virtual time that has scraped the scene's services, in place of the server."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from benchmarks.hetsev.assumptions import Model
from benchmarks.hetsev.policy import STEP, Seen, ServiceSeen

from hetserve.demand import contract
from hetserve.demand.answers import Points, Series
from hetserve.demand.queries import MIX_WINDOW, InstantQuery, Query, RangeQuery
from scrapes import over, rate, stamp

EPOCH: Final = 1_763_899_980.0
"""Its time [Unix seconds] at time 0 of the scene: a multiple of a STEP, as its scrapes are."""
_WINDOW: Final = re.compile(r"\[(\d+)ms\]")


@dataclass(slots=True)
class Counters:
    """Scrapes of one service's counters, one in a STEP: (Unix seconds, value), since the first."""

    received: Points = field(default_factory=list)
    ended: Points = field(default_factory=list)
    in_time: Points = field(default_factory=list)

    def scrape(self, at: float, seen: ServiceSeen) -> None:
        """Counts the last STEP. All begin at 0, when nothing has been sent."""
        sent, answered = (STEP * (rates[-1] if rates else 0.0) for rates in (seen.sent, seen.answered))
        for points, more in ((self.received, sent), (self.ended, answered), (self.in_time, answered * (1 - seen.late))):
            points.append((at, more + (points[-1][1] if points else 0.0)))


class ScrapedPrometheus:
    """Answers the queries of the contract about services, one for each model, in a namespace."""

    def __init__(self, namespace: str, models: Mapping[str, Model]) -> None:
        self._namespace, self._models = namespace, models
        self._counters = {name: Counters() for name in models}
        self.now = -math.inf
        """Unix seconds."""

    def scrape(self, seen: Seen) -> None:
        """Scrapes all services now; called once in each STEP."""
        for name, counters in self._counters.items():
            counters.scrape(seen.now + EPOCH, seen.services[name])

    async def clock(self) -> float:
        return self.now

    async def ask(self, query: Query, now: float) -> list[Series]:  # noqa: ARG002  (as of Prometheus)
        answers = (self._answer(query, name) for name in self._counters)
        return [series for answer in answers for series in answer]

    def _answer(self, query: Query, name: str) -> list[Series]:
        counters, labels = self._counters[name], {contract.NAMESPACE: self._namespace, contract.SERVICE: name}
        if isinstance(query, InstantQuery):
            return self._sizes(counters, labels, self._models[name].batch)
        if "timestamp" in query.promql:
            first, last = query.moments(self.now)
            points = over(first, last, query.step, lambda at: stamp(counters.received, at))
            return [Series(labels, points)] if points else []
        if "_bucket" in query.promql:
            bound = contract.bound_label(self._models[name].slo)
            return self._rates(query, counters.in_time, {**labels, contract.BOUND: bound})
        received = contract.Outcome.RECEIVED in query.promql
        return self._rates(query, counters.received if received else counters.ended, labels)

    def _rates(self, query: RangeQuery, points: Points, labels: Mapping[str, str]) -> list[Series]:
        first, last = query.moments(self.now)
        found = _WINDOW.search(query.promql)
        assert found is not None
        window = float(found[1]) / 1000
        rates = over(first, last, query.step, lambda at: rate(points, at, window))
        return [Series(labels, rates)] if rates else []

    def _sizes(self, counters: Counters, labels: Mapping[str, str], size: int) -> list[Series]:
        """Queries of the mix's window by the bounds of their size."""
        window = rate(counters.received, self.now, MIX_WINDOW)
        if window is None:
            return []
        count = window * MIX_WINDOW
        return [
            Series({**labels, contract.BOUND: contract.bound_label(bound)}, [(self.now, count * (bound >= size))])
            for bound in (*contract.batch_bounds((size,)), math.inf)
        ]
