"""A Prometheus in virtual time that scrapes services' loads and answers the queries of the contract."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable
from typing import Final

from hetserve.demand.answers import Points, Series
from hetserve.demand.queries import InstantQuery, Query, RangeQuery
from hetserve_operator.demand.prometheus import PrometheusError
from scrapes import over, rate, stamp

EPOCH: Final = 1_763_900_000.0
"""Its time [Unix seconds] when the loop's time is 0."""
SCRAPE: Final = 5.0
ANSWERS_WITHIN: Final = 0.02


MOST_POINTS: Final = 11_000


class SimulatedPrometheus:
    """loads: queries/s at a Unix time, by namespace and name.

    in_time: share of the queries that end at a Unix time. buckets: queries of ten minutes by batch bound. down: why it
    does not answer; slow: seconds for which queries with this text wait, and fail then. refused: services with more
    series than it reads for a query with the text `refuses`.
    """

    def __init__(self) -> None:
        self.loads: dict[tuple[str, str], Callable[[float], float]] = {}
        self.in_time: Callable[[float], float] = lambda _: 0.9
        self.buckets = {"1.0": 300.0, "8.0": 1000.0, "+Inf": 1000.0}
        self.own: dict[str, Callable[[float], float | None]] = {}
        self.down = ""
        self.slow: dict[str, float] = {}
        self.broken: dict[str, str] = {}
        self.refused: set[tuple[str, str]] = set()
        self.refuses = ""
        self.asked: list[tuple[float, str]] = []
        self._since = EPOCH - 3600
        self._until = float("inf")

    def forget(self) -> None:
        """Restarts empty."""
        self._since = self.now

    def lose_targets(self) -> None:
        self._until = self.now

    @property
    def now(self) -> float:
        return EPOCH + asyncio.get_running_loop().time()

    async def clock(self) -> float:
        await self._answer("time()")
        return self.now

    async def ask(self, query: Query, now: float) -> list[Series]:
        await self._answer(query.promql)
        if isinstance(query, RangeQuery) and query.points > MOST_POINTS:
            raise PrometheusError("Prometheus: exceeded maximum resolution of 11,000 points", refused=True)
        loads = {place: load for place, load in self.loads.items() if _is_asked(query.promql, place)}
        if self.refuses in query.promql and any(_is_asked(query.promql, place) for place in self.refused):
            raise PrometheusError("Prometheus: query processing would load too many samples", refused=True)
        if isinstance(query, InstantQuery):
            return list(self._buckets(loads))
        first, last = query.moments(now)
        if query.promql in self.own:
            points = over(first, last, query.step, self.own[query.promql])
            return [Series({}, points)] if points else []
        window = int(found[1]) / 1000 if (found := re.search(r"\[(\d+)ms\]", query.promql)) else 0.0
        bound = {"le": "0.35"} if "_bucket" in query.promql else {}
        return [
            Series({"namespace": namespace, "service": name, **bound}, points)
            for (namespace, name), load in loads.items()
            if (points := self._points(query.promql, load, (first, last, query.step), window))
        ]

    def _points(
        self, promql: str, load: Callable[[float], float], moments: tuple[float, float, float], window: float
    ) -> Points:
        begun = max(self._since, moments[0] - window - 300)
        ticks = int((min(moments[1], self._until) - begun) / SCRAPE)
        scrapes = [(begun + SCRAPE * k, 0.0) for k in range(1, ticks + 1)]
        if "timestamp" in promql:
            return over(*moments, lambda at: stamp(scrapes, at, 300.0))
        in_time = "_bucket" in promql
        total, grown = 0.0, []
        for at, _ in scrapes:
            total += SCRAPE * load(at) * (self.in_time(at) if in_time else 1.0)
            grown.append((at, 1e6 + total))
        return over(*moments, lambda at: rate(grown, at, window))

    def _buckets(self, places: Iterable[tuple[str, str]]) -> list[Series]:
        return [
            Series({"namespace": namespace, "service": name, "le": bound}, [(self.now, count)])
            for namespace, name in places
            for bound, count in self.buckets.items()
        ]

    async def _answer(self, promql: str) -> None:
        self.asked.append((asyncio.get_running_loop().time(), promql))
        waits = next((seconds for text, seconds in self.slow.items() if text in promql), None)
        if waits is not None:
            await asyncio.sleep(waits)
            raise PrometheusError(f"Prometheus: no answer within {waits:g} s")
        await asyncio.sleep(ANSWERS_WITHIN)
        if self.down:
            raise PrometheusError(f"Prometheus: {self.down}")
        words = next((words for text, words in self.broken.items() if text in promql), None)
        if words is not None:
            raise PrometheusError(f"Prometheus: {words}", refused="parse error" in words)


def _is_asked(promql: str, place: tuple[str, str]) -> bool:
    """Whether a query's matchers of namespace and service, if it has any, let a service through."""
    texts = (re.search(rf'{label}=~"([^"]*)"', promql) for label in ("namespace", "service"))
    return all(found is None or name in found[1].split("|") for found, name in zip(texts, place, strict=True))
