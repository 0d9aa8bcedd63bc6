"""What both kinds of polls share: the server, several queries side by side, and what a failure leads to."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import Final, Protocol

from hetserve.demand.answers import Series
from hetserve.demand.queries import Query
from hetserve_operator.demand.prometheus import PrometheusError

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


class Complaint:
    """Logs a trouble once, until it is over or its words change."""

    def __init__(self) -> None:
        self._words = ""

    def tell(self, words: str) -> None:
        if words != self._words:
            log.warning("demand is not measured: %s", words)
        self._words = words

    def settle(self) -> None:
        if self._words:
            log.info("demand is measured again")
        self._words = ""
