"""The whole extender: watches, leadership, verbs, queues, probes, shutdown."""

from __future__ import annotations

import asyncio
import logging
import socket
import time
import uuid
from dataclasses import replace
from functools import partial
from typing import Final

from hetserve.api import names
from hetserve.base.units import Seconds
from hetserve.placement.event_handlers import NodeEventHandler, PodEventHandler, ResourceSliceEventHandler
from hetserve.placement.placer import Placer
from hetserve_extender.leader.fence import LeaderFence, Revisions, listed_pod
from hetserve_extender.leader.leader import Leader
from hetserve_extender.leader.lease_reader import LeaseReader, SchedulerLease
from hetserve_extender.observe.drift import DriftCheck
from hetserve_extender.observe.ledger_view import life_of_both, placement_routes
from hetserve_extender.observe.metrics import Metrics
from hetserve_extender.observe.placement_log import PlacementLog
from hetserve_extender.queue.controller import QueueController
from hetserve_extender.requeue.requeuer import Requeuer
from hetserve_extender.settings import Settings
from hetserve_extender.verbs.bind_sender import BindSender
from hetserve_extender.verbs.binding import BindStateMachine
from hetserve_extender.verbs.handlers import Verbs
from hetserve_shell.http import probes
from hetserve_shell.http.handlers import Check, PathRouter
from hetserve_shell.http.limits import ServerLimits
from hetserve_shell.http.server import HttpServer, allotted, listen
from hetserve_shell.kube.client import ApiServer
from hetserve_shell.kube.informer import UNFINISHED_PODS, Reflector
from hetserve_shell.kube.reviews import check_of
from hetserve_shell.tasks.supervisor import supervise

log = logging.getLogger(__name__)

HOUSEKEEPING_EVERY: Final = 1.0
DRAIN_WITHIN: Final = 5.0
PROBES_DRAIN_WITHIN: Final = 3.0
MEBIBYTE: Final = 1 << 20
LOOPBACK: Final = "127.0.0.1"
"""Where the verbs are heard: by the scheduler of our own pod, and by nobody outside of it."""
NOT_SYNCED: Final = "hetserve extender has not listed pods, nodes and ResourceSlices yet"


class Extender:
    """The parts of an extender.

    lease_api: connections that read the Lease alone; review_api: those that ask who may read the probe port.
    """

    def __init__(
        self,
        settings: Settings,
        api: ApiServer,
        lease_api: ApiServer | None = None,
        review_api: ApiServer | None = None,
    ) -> None:
        self.settings = settings
        self.addresses: dict[str, tuple[str, int]] = {}
        self.log = PlacementLog(settings.placement_log * MEBIBYTE) if settings.placement_log else None
        make = self.log.placer if self.log else Placer
        self.placer = make(clock=_monotonic, hold=settings.hold, mode=settings.mode, policy=settings.policy)
        self.metrics = Metrics(self.placer)
        self.revisions = Revisions(PodEventHandler(self.placer))
        listed = partial(listed_pod, placer=self.placer)
        self.pods = Reflector(api, "/api/v1/pods", self.revisions, UNFINISHED_PODS, listed)
        nodes = NodeEventHandler(self.placer)
        self.nodes = Reflector(api, "/api/v1/nodes", nodes)
        slices = ResourceSliceEventHandler(nodes)
        self.slices = Reflector(api, names.RESOURCE_SLICES, slices, names.OF_DRA_DRIVER, optional=True)
        self.reflectors = (self.pods, self.nodes, self.slices)
        self.leader = self._leader(api, lease_api or api) if settings.scheduler.lease_name else None
        self.binder = self._binder(api)
        self.requeuer = self._requeuer(api)
        self.queue = self._queue(api)
        self.drift = DriftCheck(api, self.placer, self.metrics.drift, informers=(self.pods, self.nodes))
        self.verbs, self.probes = self._servers(check_of(settings.probe_authorization, review_api or api))
        self._listen_to_parts()

    def _listen_to_parts(self) -> None:
        # A leader that takes over gives no answers.
        self.metrics.leader.set_function(lambda: not self.refusal())
        self.metrics.lease.set_function(lambda: self.leader is None or self.leader.reader.leads())
        self.placer.on_change = self._changed
        self.placer.on_expired = self._expired

    def _changed(self) -> None:
        self.queue.wake()
        self.requeuer.wake()

    def _expired(self, reservations: int) -> None:
        self.metrics.expired.inc(reservations)
        self.requeuer.wake()

    def ready(self) -> bool:
        return all(reflector.synced.is_set() for reflector in self.reflectors)

    def not_ready(self) -> str:
        """Why /readyz fails; empty if ready."""
        return "" if self.ready() else NOT_SYNCED

    def refusal(self) -> str:
        """Why no verb is answered; empty if they are."""
        return self.not_ready() or (self.leader.refusal() if self.leader else "")

    async def run(self, stop: asyncio.Event) -> None:
        """Serves until `stop` is set, then finishes requests and binds."""
        await self.probes.start(self._listen("probes", self.settings.host, self.settings.probe_port))
        try:
            await self.verbs.start(self._listen("verbs", LOOPBACK, self.settings.port))
            await self._run(stop)
        finally:
            await self.probes.stop(PROBES_DRAIN_WITHIN)

    async def _run(self, stop: asyncio.Event) -> None:
        async with asyncio.TaskGroup() as group:
            parts = [*(reflector.run() for reflector in self.reflectors), self._keep_house(), self._lead()]
            if self.log is not None:
                parts.append(self.log.run())
            work = [group.create_task(part) for part in parts]
            await stop.wait()
            log.info("stopping")
            await self.verbs.stop(DRAIN_WITHIN)
            await self.binder.drain(DRAIN_WITHIN)
            if self.leader is not None:
                self.leader.reader.ending = True
            for task in work:
                task.cancel()

    async def _lead(self) -> None:
        """Leads when all lists are known; before, every GPU looks idle."""
        for reflector in self.reflectors:
            await reflector.synced.wait()
        bookings, pods = self.placer.ledger.bookings(), self.placer.pods
        log.info("synced: %d pods on GPUs, %d without a node", len(bookings), len(pods))
        if self.leader is None:
            await self.background_tasks()
        else:
            await self.leader.run(self.background_tasks)

    async def background_tasks(self) -> None:
        """Runs what a leader does beside answering, until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                self.queue.wake()
                tasks = {"queue": self.queue.run, "drift": self.drift.run, "recall": self.requeuer.run}
                if self.leader is not None:
                    tasks["sign"] = self.leader.reader.sign
                for name, task in tasks.items():
                    failures = self.metrics.duty_failures.labels(name)
                    group.create_task(supervise(name, task, failures.inc))
        finally:
            self.queue.deposed()

    def _listen(self, what: str, host: str, port: int) -> socket.socket:
        listener = listen(host, port)
        self.addresses[what] = listener.getsockname()[:2]
        log.info("%s on %s:%d", what, *self.addresses[what])
        return listener

    def _leader(self, api: ApiServer, lease_api: ApiServer) -> Leader:
        options = self.settings.scheduler
        host = options.host or socket.gethostname()
        reader = LeaseReader(lease_api, options.lease_namespace, options.lease_name, SchedulerLease(host))
        identity = f"{host}_{uuid.uuid4().hex[:8]}"
        return Leader(reader, identity, api, self.pods, self.revisions, self.placer)

    def _binder(self, api: ApiServer) -> BindSender:
        # Without an election too: binds need the pod's current version.
        fence = self.leader.fence() if self.leader else LeaderFence(self.revisions, lambda: 1, str)
        errors = self.metrics.bind_errors
        return BindSender(api, BindStateMachine(self.placer, fence), on_error=lambda kind: errors.labels(kind).inc())

    def _requeuer(self, api: ApiServer) -> Requeuer:
        recalls = self.metrics.recalls
        count = lambda outcome: recalls.labels(outcome).inc()  # noqa: E731
        return Requeuer(api, self.placer, lambda: str(time.time()), on_requeue=count)

    def _servers(self, check: Check | None) -> tuple[HttpServer, HttpServer]:
        """Servers of the verbs and the probes, which share the process's descriptors. check: of the probes' readers."""
        verbs, probing = ServerLimits(), probes.LIMITS
        shares = allotted({"verbs": verbs.connections, "probes": probing.connections})
        served = self.leader.served if self.leader else None
        handlers = Verbs(self.placer, self.binder, self.metrics, self.refusal, served, self.requeuer)
        limits = replace(verbs, connections=shares["verbs"])
        server = HttpServer(PathRouter(handlers.routes()), limits, "verbs")
        routes = placement_routes(self.placer, self.log)
        limits = replace(probing, connections=shares["probes"])
        alive = life_of_both(self.settings.scheduler.health_url)
        return server, probes.probe_server(
            self.metrics.text, self.not_ready, routes, limits, check=check, not_alive=alive
        )

    def _queue(self, api: ApiServer) -> QueueController:
        options = self.settings.queue
        return QueueController(
            api=api,
            placer=self.placer,
            settings=options.core,
            unschedulable_after=options.unschedulable_after,
            debounce=options.debounce,
            fail_open_after=options.fail_open_after,
            clock=_monotonic,
            wall=lambda: Seconds(time.time()),
            on_round=self.metrics.round,
            on_lift=lambda outcome: self.metrics.lifts.labels(outcome).inc(),
        )

    async def _keep_house(self) -> None:
        while True:
            await asyncio.sleep(HOUSEKEEPING_EVERY)
            self.binder.verify_overdue()


def _monotonic() -> Seconds:
    return Seconds(time.monotonic())
