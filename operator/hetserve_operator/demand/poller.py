"""Asks Prometheus for the load of all services at each interval; nothing else waits for it.

One loop asks the grouped queries of the contract, another the services' own, so that a slow one of those delays only
its kind.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Final

from hetserve.demand.queries import MetricsQuerySpec
from hetserve_operator.demand.cache import DemandCache
from hetserve_operator.demand.polls import CONTRACT, QUERIES, Asking, ContractPoll, OwnPoll
from hetserve_operator.metrics import OperatorMetrics
from hetserve_operator.workqueue import Key
from hetserve_shell.tasks.slices import Slices

EARLY: Final = 2.0
"""Seconds for which new wishes are gathered before Prometheus is asked out of turn."""
_JUST_AFTER: Final = 0.1
"""Seconds after a moment of Prometheus's clock at which its samples are there."""


class DemandPoller:
    """Fills a cache with demand. prometheus, own: two ways to the same server, the second for services' own queries.

    wanted: what each service wants now. interval: seconds; clock: seconds.
    """

    def __init__(
        self,
        cache: DemandCache,
        prometheus: Asking,
        own: Asking,
        wanted: Callable[[], Mapping[Key, MetricsQuerySpec]],
        metrics: OperatorMetrics,
        *,
        interval: float,
        clock: Callable[[], float],
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._cache = cache
        self._wanted = wanted
        self._metrics = metrics
        self._interval = interval
        self._clock = clock
        self._sleep = sleep
        self._early = {source: asyncio.Event() for source in (CONTRACT, QUERIES)}
        self._contract = ContractPoll(cache, prometheus, metrics, clock, interval, sleep=sleep)
        self._own = OwnPoll(cache, own, metrics, clock, interval)

    def loops(self) -> list[Callable[[], Awaitable[None]]]:
        """What to run until it is cancelled."""
        asks = {CONTRACT: self._contract.ask, QUERIES: self._own.ask}
        return [partial(self._run, source, ask) for source, ask in asks.items()]

    def soon(self) -> None:
        """Asks out of turn: what a service wants has changed."""
        for event in self._early.values():
            event.set()

    async def poll(self) -> float | None:
        """Asks for the services of the contract once; Prometheus's time, None without an answer."""
        return await self._poll(CONTRACT, self._contract.ask)

    async def _run(self, source: str, ask: Callable[[], Awaitable[float | None]]) -> None:
        while True:
            begun = self._clock()
            self._early[source].clear()
            now = await self._poll(source, ask)
            # What is asked for are multiples of a step by Prometheus's clock: a new one is asked for as it comes.
            passed = 0.0 if now is None else (now + self._clock() - begun) % self._interval - _JUST_AFTER
            await self._pause(source, self._interval - passed)

    async def _poll(self, source: str, ask: Callable[[], Awaitable[float | None]]) -> float | None:
        self._cache.follow(self._wanted())
        asks = bool(self._cache.to_ask(own=source == QUERIES))
        with self._metrics.demand_seconds.labels(source).time() if asks else contextlib.nullcontext():
            now = await ask()
            await self._tick()
        return now

    async def _pause(self, source: str, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._early[source].wait()
                await self._sleep(EARLY)

    async def _tick(self) -> None:
        slices = Slices(self._sleep)
        for _ in self._cache.tick():
            await slices.turn()
