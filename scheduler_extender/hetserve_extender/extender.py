"""The whole extender: watches, election, verbs, queues, probes, shutdown."""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from dataclasses import replace
from functools import partial
from typing import Final

from hetserve.api import names
from hetserve.base.units import Seconds
from hetserve.placement.event_handlers import NodeEventHandler, PodEventHandler, ResourceSliceEventHandler
from hetserve.placement.placer import Placer
from hetserve_extender.leader.farewell import refuse_calls
from hetserve_extender.leader.fence import LeaderFence, Revisions, listed_pod
from hetserve_extender.leader.fitness import Fitness, reach
from hetserve_extender.leader.label import LeaderLabel
from hetserve_extender.leader.leader import Leader
from hetserve_extender.leader.rollout import Rollout
from hetserve_extender.leader.shared_port import SharedPort
from hetserve_extender.observe.drift import DriftCheck
from hetserve_extender.observe.metrics import Metrics
from hetserve_extender.observe.placement_log import PlacementLog
from hetserve_extender.observe.probes import placement_routes
from hetserve_extender.queue.controller import QueueController
from hetserve_extender.requeue.requeuer import Requeuer
from hetserve_extender.settings import Settings
from hetserve_extender.verbs.bind import Binder
from hetserve_extender.verbs.binding import Binds
from hetserve_extender.verbs.handlers import Verbs
from hetserve_shell.descriptors import allotted
from hetserve_shell.http import probes
from hetserve_shell.http.connection import Connection
from hetserve_shell.http.limits import Check, Limits
from hetserve_shell.http.listener import listen
from hetserve_shell.http.server import HttpServer
from hetserve_shell.http.tls import over
from hetserve_shell.kube.client import ApiServer, pod_path
from hetserve_shell.kube.informer import UNFINISHED_PODS, Reflector
from hetserve_shell.kube.reviews import check_of
from hetserve_shell.leader.elector import Elector
from hetserve_shell.tasks.supervisor import supervise
from hetserve_shell.tls.rotation import Rotation

log = logging.getLogger(__name__)

HOUSEKEEPING_EVERY: Final = 1.0
DRAIN_WITHIN: Final = 5.0
PROBES_DRAIN_WITHIN: Final = 3.0
MEBIBYTE: Final = 1 << 20
LINGER: Final = 2.0
"""Seconds without a call after which the nodes are believed to know that calls go to another pod."""
LINGER_LEAST: Final = 4.0
"""Seconds for them to learn it where no call comes."""
LINGER_WITHIN: Final = 6.0
"""Seconds for them to learn it: by then what still comes here comes for another reason."""
DEPOSED_WITHIN: Final = 0.5
"""Seconds to finish answers when another process leads."""
NOT_SYNCED: Final = "hetserve extender has not listed pods, nodes and ResourceSlices yet"


class Extender:
    """The parts of an extender.

    pod: name of its own pod; None: a process. lease_api: the elector's connections; review_api: those that ask who may
    read the probe port.
    """

    def __init__(
        self,
        settings: Settings,
        api: ApiServer,
        pod: str | None = None,
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
        self.fitness = Fitness(self._look)
        self.rollout = Rollout(pod or "", _monotonic)
        self.leader = self._leader(api, lease_api or api, pod) if settings.leader_election.enabled else None
        self.siblings = self._siblings(api) if self.leader and pod else None
        self.label = LeaderLabel(api, settings.leader_election.namespace, pod) if self.leader and pod else None
        self.binder = self._binder(api)
        self.requeuer = self._requeuer(api)
        self.queue = self._queue(api)
        self.drift = DriftCheck(api, self.placer, self.metrics.drift, informers=(self.pods, self.nodes))
        self.certificates = self._certificates()
        self.verbs, self.probes = self._servers(check_of(settings.probe_authorization, review_api or api))
        if self.certificates is not None:  # who was let in by other authorities shows a certificate anew
            self.certificates.on_trust = self.verbs.part
        # Processes take turns on one port; a Service finds the leader among pods.
        self.takes_turns = self.leader is not None and pod is None
        self.port = SharedPort(settings.host, settings.port, self._serve_verbs)
        self._listen_to_parts()

    def _listen_to_parts(self) -> None:
        self.metrics.leader.set_function(self._serves)
        self.metrics.lease.set_function(lambda: self.leader is None or self.leader.elector.leads())
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

    def _serves(self) -> bool:
        """Whether the scheduler gets answers: a leader that takes over or waits for its port gives none."""
        return "verbs" in self.addresses and not self.refusal()

    async def run(self, stop: asyncio.Event) -> None:
        """Serves until `stop` is set, then finishes requests and binds and hands over."""
        await self.probes.start(self._listen("probes", self.settings.probe_port))
        try:
            if not self.takes_turns:
                await self._serve_verbs()
            await self._run(stop)
            if self.label is not None and self.label.worn and not self.rollout.all_end():
                await self._refuse_calls()
        finally:
            await self.probes.stop(PROBES_DRAIN_WITHIN)

    async def _refuse_calls(self) -> None:
        try:
            listener = listen(*self.addresses["verbs"])
        except OSError as error:
            log.warning("calls that come now are not refused: %s", error)
            return
        await refuse_calls(listener, LINGER, LINGER_LEAST, LINGER_WITHIN)

    async def _run(self, stop: asyncio.Event) -> None:
        async with asyncio.TaskGroup() as group:
            parts = [*(reflector.run() for reflector in self.reflectors), self._keep_house(), self._lead()]
            if self.siblings is not None:
                self.rollout.on_change = partial(self._make_way, stop)
                parts.append(self.siblings.run())
            if self.log is not None:
                parts.append(self.log.run())
            if self.certificates is not None:
                parts.append(self.certificates.run())
            work = [group.create_task(part) for part in parts]
            if self.leader is not None:
                work.append(group.create_task(self.fitness.run(stop)))
            await stop.wait()
            log.info("stopping")
            await self.verbs.stop(DRAIN_WITHIN)
            await self.binder.drain(DRAIN_WITHIN)
            if self.leader is not None:
                await self.leader.hand_over()
            for task in work:
                task.cancel()

    def _make_way(self, stop: asyncio.Event) -> None:
        """Ends a leader in order where a new extender waits for its Lease."""
        if not stop.is_set() and (words := self.rollout.makes_way()) and self._serves():
            log.info("%s: making way for it", words)
            stop.set()

    async def _lead(self) -> None:
        """Contends when all lists are known; before, every GPU looks idle."""
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
                if self.takes_turns:
                    await self.port.take()
                self.queue.wake()
                tasks = {"queue": self.queue.run, "drift": self.drift.run, "recall": self.requeuer.run}
                if self.label is not None:
                    tasks["label"] = self.label.keep
                for name, task in tasks.items():
                    failures = self.metrics.duty_failures.labels(name)
                    group.create_task(supervise(name, task, failures.inc))
        finally:
            self.queue.deposed()
            if self.takes_turns:
                await self.verbs.stop(DEPOSED_WITHIN)
                self.addresses.pop("verbs", None)
            else:  # the scheduler keeps its connections to us
                self.verbs.part()
            if self.label is not None:
                await self.label.drop()

    async def _serve_verbs(self) -> None:
        await self.verbs.start(self._listen("verbs", self.settings.port))

    async def _look(self) -> str:
        """Why the verbs cannot be reached; empty if they can."""
        address = self.addresses.get("verbs")
        if address is None and (words := self.port.look()):
            return words
        deadline = self.settings.leader_election.renew_deadline
        return await reach(address, deadline, tls=self.certificates is not None)

    def _listen(self, what: str, port: int) -> socket.socket:
        listener = listen(self.settings.host, port)
        self.addresses[what] = listener.getsockname()[:2]
        log.info("%s on %s:%d", what, *self.addresses[what])
        return listener

    def _leader(self, api: ApiServer, lease_api: ApiServer, pod: str | None) -> Leader:
        options = self.settings.leader_election
        candidate = options.candidate(pod, (names.ANNOTATION_BOOKS_COMPUTE,))
        # A leader that makes way renews its Lease until it has ended in order.
        unfit = lambda: self.fitness.unfit() or ("" if candidate.mine else self.rollout.defers())  # noqa: E731
        hurries = self.rollout.hurries
        elector = Elector(lease_api, options.namespace, options.lease_name, candidate, unfit=unfit, hurries=hurries)
        return Leader(elector, api, self.pods, self.revisions, self.placer)

    def _siblings(self, api: ApiServer) -> Reflector:
        path = pod_path(self.settings.leader_election.namespace, "").removesuffix("/")
        return Reflector(api, path, self.rollout, UNFINISHED_PODS)

    def _binder(self, api: ApiServer) -> Binder:
        # Without an election too: binds need the pod's current version.
        fence = self.leader.fence() if self.leader else LeaderFence(self.revisions, lambda: 1, str)
        errors = self.metrics.bind_errors
        return Binder(api, Binds(self.placer, fence), on_error=lambda kind: errors.labels(kind).inc())

    def _requeuer(self, api: ApiServer) -> Requeuer:
        recalls = self.metrics.recalls
        count = lambda outcome: recalls.labels(outcome).inc()  # noqa: E731
        return Requeuer(api, self.placer, lambda: str(time.time()), on_requeue=count)

    def _certificates(self) -> Rotation | None:
        """Those of the verbs' port; None: plain HTTP. Raises CertificateError."""
        files = self.settings.tls.files
        if files is None:
            return None
        made = Rotation(files, frozenset(self.settings.tls.client_names), on_refused=self.metrics.refused_clients.inc)
        self.metrics.certificates.rotation = made
        return made

    def _servers(self, check: Check | None) -> tuple[HttpServer, HttpServer]:
        """Servers of the verbs and the probes, which share the process's descriptors. check: of the probes' readers."""
        verbs, probing = Limits(), probes.LIMITS
        shares = allotted({"verbs": verbs.connections, "probes": probing.connections})
        handlers = Verbs(self.placer, self.binder, self.metrics, self.refusal, self.requeuer)
        limits = replace(verbs, connections=shares["verbs"])
        hear = over(self.certificates) if self.certificates is not None else Connection
        server = HttpServer(handlers.routes(), limits, "verbs", hear=hear)
        routes = placement_routes(self.placer, self.log)
        limits = replace(probing, connections=shares["probes"])
        return server, probes.probe_server(self.metrics.text, self.not_ready, routes, limits, check)

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
