"""What both kinds of polls share: the server, several queries side by side, and what a failure leads to."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import ClassVar, Final, Generic, Protocol, TypeVar

from hetserve.demand.answers import Series
from hetserve.demand.queries import Query
from hetserve_operator.demand.cache import DemandCache
from hetserve_operator.demand.prometheus import PrometheusError
from hetserve_operator.metrics import OperatorMetrics
from hetserve_operator.workqueue import Key

log = logging.getLogger(__name__)

CONTRACT: Final = "Hetserve"
QUERIES: Final = "Queries"
"""Sources, as spec.metrics.source names them."""


class Asking(Protocol):
    """A Prometheus server."""

    async def clock(self) -> float:
        """Its own time [Unix seconds]. Raises PrometheusError."""
        ...

    async def ask(self, query: Query, now: float, /) -> list[Series]:
        """Series of a query at `now` [Unix seconds]. Raises PrometheusError."""
        ...


Answer = list[Series] | PrometheusError


async def ask_all(prometheus: Asking, queries: Iterable[Query], now: float) -> list[Answer]:
    """The answer to each query; one that fails leaves the others theirs."""

    async def one(query: Query) -> Answer:
        try:
            return await prometheus.ask(query, now)
        except PrometheusError as error:
            return error

    return await asyncio.gather(*map(one, queries))


class Poll:
    """One kind of polls. source: as spec.metrics.source names it; clock: seconds."""

    source: ClassVar[str]

    def __init__(
        self, cache: DemandCache, prometheus: Asking, metrics: OperatorMetrics, clock: Callable[[], float]
    ) -> None:
        self._cache = cache
        self._prometheus = prometheus
        self._metrics = metrics
        self._clock = clock
        self._trouble = ""

    async def time(self, keys: Iterable[Key]) -> float | None:
        """Prometheus's time; None: it does not answer, so that the demand of these services ages."""
        try:
            return await self._prometheus.clock()
        except PrometheusError as error:
            self.fail(keys, error)
            return None

    def fail(self, keys: Iterable[Key], error: PrometheusError) -> None:
        """Prometheus does not answer about these services: logged once, until it does or its message changes."""
        if self._trouble != (message := str(error)):
            log.warning("demand is not measured: %s", message)
        self._trouble = message
        self.count("failed")
        for key in keys:
            self._cache.fail(key, message)

    def settle(self) -> None:
        """Prometheus answers."""
        if self._trouble:
            log.info("demand is measured again")
        self._trouble = ""

    def count(self, result: str) -> None:
        self._metrics.demand_polls.labels(self.source, result).inc()


LONGEST_PAUSE: Final = 300.0
"""Seconds until a question that fails again and again is asked once more."""

Question = TypeVar("Question")


@dataclass(frozen=True, slots=True)
class _Failures(Generic[Question]):
    """In a row, of a question. until: not asked before [s]."""

    question: Question
    count: int
    until: float


class Pauses(Generic[Question]):
    """Services whose questions have failed. interval: seconds between two polls; clock: seconds."""

    def __init__(self, clock: Callable[[], float], interval: float) -> None:
        self._clock = clock
        self._interval = interval
        self._of: dict[Key, _Failures[Question]] = {}

    def __contains__(self, key: Key) -> bool:
        """Whether the last question of a service has failed."""
        return key in self._of

    def keep(self, keys: Collection[Key]) -> None:
        """Forgets all other services."""
        self._of = {key: failed for key, failed in self._of.items() if key in keys}

    def is_due(self, key: Key, question: Question) -> bool:
        """Whether to ask; another question than the one that failed at once."""
        failed = self._of.get(key)
        return failed is None or failed.question != question or failed.until <= self._clock()

    def fail(self, key: Key, question: Question) -> None:
        """Doubles the pause of a service, from one interval on."""
        count = self._of[key].count + 1 if key in self._of else 1
        pause = min(self._interval * 2.0 ** (count - 1), LONGEST_PAUSE)
        self._of[key] = _Failures(question, count, self._clock() + pause - self._interval / 2)

    def note(self, key: Key, question: Question) -> None:
        """A part of its question has failed, so that it is asked again without a pause."""
        self._of[key] = _Failures(question, 0, self._clock())

    def settle(self, keys: Collection[Key]) -> None:
        """Their questions were answered."""
        for key in keys:
            self._of.pop(key, None)
