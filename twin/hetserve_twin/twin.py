"""The twin's parts put together: watches, the play in real time, and the port of probes and metrics."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Final

from hetserve.base.units import Seconds
from hetserve.profiles.sharing import ONE
from hetserve_services.exposition import metrics_text
from hetserve_services.facts import Key
from hetserve_shell.http.probes import LIMITS, probe_server
from hetserve_shell.http.server import allotted, listen
from hetserve_shell.kube.client import ApiServer
from hetserve_shell.kube.reviews import check_of
from hetserve_twin.cluster import Cluster
from hetserve_twin.engine import LoadTwin, TracedLoad, compile_loop
from hetserve_twin.exposition import TwinCollector
from hetserve_twin.settings import TwinSettings

log = logging.getLogger(__name__)

DRAIN_WITHIN: Final = Seconds(5.0)
"""Seconds for the answers to what has arrived, when the process ends."""
PROBES_DRAIN_WITHIN: Final = 3.0
NOT_SYNCED: Final = "the objects of the cluster are not listed yet"
NOT_PLAYING: Final = "the play has not begun yet"


class Twin:
    """The parts of a twin. loads: what is played, by service. clock, sleep: of real time, in seconds.

    review_api: connections that ask who may read the port.
    """

    def __init__(
        self,
        settings: TwinSettings,
        loads: Mapping[Key, TracedLoad],
        api: ApiServer,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        *,
        review_api: ApiServer | None = None,
    ) -> None:
        self.settings = settings
        self._check = check_of(settings.probe_authorization, review_api or api)
        given = settings.policy, settings.speed, settings.seed, Seconds(settings.timeout), settings.max_slowdown / ONE
        self.engine = LoadTwin(loads, *given)
        self.cluster = Cluster(api, loads.keys(), settings.max_slowdown)
        self.address: tuple[str, int] | None = None
        self.playing = asyncio.Event()
        self._clock, self._sleep = clock, sleep
        self._began = 0.0
        self._collector = TwinCollector(self.engine, self.cluster.devices, self.lag)

    def lag(self) -> float:
        """Seconds by which the play is behind the clock."""
        return max(self._clock() - self._began - self.engine.now, 0.0) if self.playing.is_set() else 0.0

    def not_ready(self) -> str:
        """Why /readyz fails; empty if it does not."""
        if not all(reflector.synced.is_set() for reflector in self.cluster.reflectors):
            return NOT_SYNCED
        return "" if self.playing.is_set() else NOT_PLAYING

    async def run(self, stop: asyncio.Event) -> None:
        """Plays until `stop` is set and what has arrived is served, or DRAIN_WITHIN has passed."""
        limits = replace(LIMITS, connections=allotted({"probes": LIMITS.connections})["probes"])
        probes = probe_server(self.text, self.not_ready, limits=limits, check=self._check)
        listener = listen(self.settings.host, self.settings.port)
        self.address = listener.getsockname()[:2]
        log.info("metrics on %s:%d", *self.address)
        await probes.start(listener)
        try:
            async with asyncio.TaskGroup() as group:
                watches = [group.create_task(reflector.run()) for reflector in self.cluster.reflectors]
                playing = group.create_task(self._play())
                await stop.wait()
                log.info("stopping")
                playing.cancel()
                await self._drain()
                for task in watches:
                    task.cancel()
        finally:
            await probes.stop(PROBES_DRAIN_WITHIN)

    async def text(self) -> bytes:
        """All metrics in the text format of Prometheus."""
        return metrics_text(self._collector)

    async def _play(self) -> None:
        await asyncio.to_thread(compile_loop, self.settings.policy)
        await self.cluster.synced()
        self._began = self._clock()
        self.look()
        self.playing.set()
        while True:
            await self._slice()

    async def _slice(self) -> None:
        await self._sleep(self.settings.slice)
        self.look()
        self.engine.advance(Seconds(self._clock() - self._began))

    def look(self) -> None:
        """Takes over what has changed in the cluster."""
        redeclared, moved = self.cluster.redeclared, self.cluster.moved
        if redeclared.is_set():
            self.engine.declare(facts for _, facts in self.cluster.declared())
        if redeclared.is_set() or moved.is_set():
            self.engine.stand(self.cluster.ready())
        redeclared.clear()
        moved.clear()

    async def _drain(self) -> None:
        """Lets nothing more arrive; plays on until all is answered, so that the last scrape shows it."""
        if not self.playing.is_set():
            return
        self.engine.close()
        until = self._clock() + DRAIN_WITHIN
        while self.engine.in_flight and self._clock() < until:
            await self._slice()
