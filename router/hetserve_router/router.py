"""The router's parts put together: services and their instances, the port of queries, the port of probes."""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from typing import Final

from hetserve_router.access_log import AccessLog
from hetserve_router.front import Front
from hetserve_router.instances import InstanceAddress
from hetserve_router.observed import RouterCollector, observed_routes
from hetserve_router.served import ServedService, ServedSpec, ServiceLimits
from hetserve_router.settings import RouterSettings
from hetserve_services.exposition import metrics_text
from hetserve_services.facts import Key
from hetserve_services.figures import STAYS, InstanceFigures, ServiceFigures
from hetserve_shell.http.handlers import Check
from hetserve_shell.http.limits import ServerLimits
from hetserve_shell.http.probes import LIMITS, probe_server
from hetserve_shell.http.server import HttpServer, allotted, listen
from hetserve_shell.tls.rotation import Rotation, TlsFiles
from hetserve_shell.tls.transport import over

log = logging.getLogger(__name__)

DRAIN_WITHIN: Final = 15.0
"""Seconds for the answers to what has arrived, when the process ends."""
QUIET: Final = 3.0
"""Seconds without a request after which nobody sends any more."""
PROBES_DRAIN_WITHIN: Final = 3.0
HEAD_WITHIN: Final = 10.0
"""Seconds for a head, or the first byte of a connection."""
NOT_SERVING: Final = "the services are not known yet"


class Router:
    """Serves queries of the services that it is told of, at the instances that it is told of.

    serves: whether this replica takes queries. addresses: of the ports `queries`, `tls` and `probes`, once they listen.
    check: who reads metrics; None: everybody.
    """

    def __init__(
        self,
        settings: RouterSettings,
        namespaces: tuple[str, ...],
        serves: Callable[[], bool] = lambda: True,
        check: Check | None = None,
    ) -> None:
        self.settings = settings
        self.services: dict[Key, ServedService] = {}
        self.front = Front(
            self.services, namespaces, serves, settings.cluster_domain, access_log=AccessLog(settings.access_log)
        )
        self.is_ready = False
        self.queries: HttpServer | None = None
        self.addresses: dict[str, tuple[str, int]] = {}
        self.instances = InstanceFigures()
        self._figures: dict[Key, ServiceFigures] = {}
        self._connections = allotted({"queries": settings.connections, "probes": LIMITS.connections})
        self._ended: dict[Key, tuple[float, ServedService]] = {}
        """Services that are not declared any more, and since when [s]: their figures are kept for STAYS."""
        self._check = check
        name = settings.leader_election.lease_name
        self._collector = RouterCollector(name, self.front, self._figures, self.instances)

    def declare(self, specs: Iterable[ServedSpec]) -> None:
        """Takes the services as they are declared now; one that is gone is refused from now on."""
        found = {spec.facts.key: spec for spec in specs}
        now = time.monotonic()
        for key in self.services.keys() - found.keys():
            self.services[key].stand(())
            self._ended[key] = now, self.services.pop(key)
            self.front.forget_routes()
        for key in [key for key, (since, _) in self._ended.items() if since + STAYS < now]:
            del self._ended[key]
            if key not in found:
                del self._figures[key]
        limits = ServiceLimits(
            self.settings.body, max(self.settings.body, self.settings.bodies // 4), self._connections["queries"] // 4
        )
        for key, spec in found.items():
            if key in self.services:
                self.services[key].revise(spec)
            else:
                self.services[key] = ServedService(spec, limits, self.instances, self.front.access_log)
                self._figures[key] = self.services[key].figures

    def stand(self, instances: Mapping[Key, list[InstanceAddress]], draining: Iterable[str] = ()) -> None:
        """Takes the instances that serve now; see `ServedService.stand`."""
        ending = tuple(draining)
        for key, service in self.services.items():
            service.stand(instances.get(key, ()), ending)

    async def run(self, stop: asyncio.Event, give_up: Callable[[], Awaitable[None]] | None = None) -> None:
        """Serves until `stop` is set; then it says it is not ready, `give_up` lets another lead, what comes is served.

        That ends once nothing has come for QUIET seconds, or after DRAIN_WITHIN.
        """
        settings, tls = self.settings, self.settings.tls
        self.queries = queries = HttpServer(self.front, self._limits(), "queries")
        self.front.budget = queries.budget
        limits = replace(LIMITS, connections=self._connections["probes"])
        probes = probe_server(self.text, self.not_ready, observed_routes(self.front), limits, check=self._check)
        rotating: asyncio.Task[None] | None = None
        if tls is not None:
            files = TlsFiles(tls.certificate, tls.key, tls.client_ca)
            rotation = Rotation(files, on_trust=self.part)
            await queries.start(self._listen("tls", tls.port), over(rotation))
            rotating = asyncio.create_task(rotation.run())
        if tls is None or tls.client_ca is None:
            await queries.start(self._listen("queries", settings.port))
        await probes.start(self._listen("probes", settings.probe_port))
        try:
            await stop.wait()
            log.info("stopping")
            self.front.ending, since = True, self.front.asked_at
            if give_up is not None:
                await give_up()
                since = time.monotonic()
            queries.part()
            if self.front.serves():
                await self._quiet(queries, since)
        finally:
            await queries.stop(DRAIN_WITHIN)
            await probes.stop(PROBES_DRAIN_WITHIN)
            self.front.access_log.close()
            if rotating is not None:
                rotating.cancel()

    def not_ready(self) -> str:
        """Why /readyz fails; empty if it does not."""
        return "" if self.is_ready else NOT_SERVING

    async def text(self) -> bytes:
        """All metrics in the text format of Prometheus."""
        for service in (*(ended for _, ended in self._ended.values()), *self.services.values()):
            service.count_present()
            await asyncio.sleep(0)  # queries go on between two services
        return metrics_text(self._collector)

    def _listen(self, what: str, port: int) -> socket.socket:
        listener = listen(self.settings.host, port)
        self.addresses[what] = listener.getsockname()[:2]
        log.info("%s on %s:%d", what, *self.addresses[what])
        return listener

    def part(self) -> None:
        """Asks clients to come by another connection."""
        if self.queries is not None:
            self.queries.part()

    async def _quiet(self, queries: HttpServer, since: float) -> None:
        began = now = time.monotonic()
        while (until := min(began + DRAIN_WITHIN, max(since, self.front.asked_at) + QUIET)) > now:
            await asyncio.sleep(until - now)
            queries.part()
            now = time.monotonic()

    def _limits(self) -> ServerLimits:
        settings = self.settings
        return ServerLimits(
            body=settings.body,
            bodies=settings.bodies,
            connections=self._connections["queries"],
            waiting=HEAD_WITHIN,
            uploading=settings.uploading,
            idle=settings.idle,
            unread=settings.unread,
        )
