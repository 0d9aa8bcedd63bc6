"""The process: settings, API server, watches, queue controller, two HTTP servers, and an orderly end."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import socket
import time
import uuid
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import click
import uvicorn
import uvloop
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from hetserve.placement.event_handlers import NodeSink, PodSink
from hetserve.placement.placer import Placer
from hetserve.units import Seconds
from hetserve_extender.leader.fence import LeaderFence, Revisions, listed_pod
from hetserve_extender.leader.fitness import Fitness, reach
from hetserve_extender.leader.label import LeaderLabel
from hetserve_extender.leader.leader import Leader
from hetserve_extender.observe.drift import DriftCheck
from hetserve_extender.observe.metrics import Metrics
from hetserve_extender.observe.placement_log import PlacementLog
from hetserve_extender.queue.controller import QueueController
from hetserve_extender.requeue.requeuer import Recall
from hetserve_extender.settings import Settings
from hetserve_extender.verbs.bind import Binder
from hetserve_extender.verbs.binding import Binds
from hetserve_extender.verbs.handlers import NOT_SYNCED, Probes, Verbs
from hetserve_shell import process
from hetserve_shell.descriptors import allotted
from hetserve_shell.http.guard import BACKLOG, Guard, GuardLimits
from hetserve_shell.http.limits import Limits
from hetserve_shell.http.server import HttpServer
from hetserve_shell.kube.client import LEASE_CONNECTIONS, ApiServer, KubernetesApi
from hetserve_shell.kube.connection import ApiConnection
from hetserve_shell.kube.informer import UNFINISHED_PODS, Reflector
from hetserve_shell.leader.elector import Elector
from hetserve_shell.leader.lease import Candidate
from hetserve_shell.tasks import garbage
from hetserve_shell.tasks.supervisor import kept_up

log = logging.getLogger(__name__)

HOUSEKEEPING_EVERY: Final = 1.0
DRAIN_WITHIN: Final = 5.0
MEBIBYTE: Final = 1 << 20
DEPOSED_WITHIN: Final = 0.5
"""Seconds for answers under way when another leads: all that is left to say is that we do not."""
PORT_PAUSE: Final = 0.1
PORT_PAUSE_AT_MOST: Final = 1.0
PORT_AWAITED: Final = 30.0
"""Seconds for which a leader waits for its port: a leader of before parts from it within some 10."""
POD_NAME: Final = "POD_NAME"
"""Environment variable with the name of our own pod, by the downward API."""


@click.command()
@process.config_option
@process.kubeconfig_option
@click.option("--host", help="Address of both ports.")
@click.option("--port", type=int, help="Port of the scheduler's verbs.")
@click.option("--identity", help="Who we are in the Lease; default: the pod, else the host.")
@click.option("--probe-port", type=int, help="Port of health, metrics and the ledger.")
@process.log_level_option
@click.version_option(package_name="hetserve")
def main(config_path: Path | None, kubeconfig: Path | None, identity: str | None, **flags: Any) -> None:
    """Scheduler extender of hetserve: places pods on GPUs and releases them from their queues."""
    settings = process.settings_or_exit(Settings, config_path, flags)
    if identity:
        settings = settings.identified(identity)
    if kubeconfig is not None and not kubeconfig.is_file():
        raise click.ClickException(f"kubeconfig {kubeconfig} does not exist")
    process.log_to_stderr(settings.log_level)
    process.run_or_exit(uvloop.run, serve(settings, kubeconfig))


async def serve(settings: Settings, kubeconfig: Path | None) -> None:
    """Run until SIGTERM or SIGINT. Raises what ends any part: without one of them the others must not go on."""
    garbage.relax()
    stop = asyncio.Event()
    process.stop_on_signals(stop)
    connection = await ApiConnection.connect(kubeconfig, user_agent="hetserve-extender")
    api, lease_api = KubernetesApi(connection), KubernetesApi(connection, LEASE_CONNECTIONS)
    try:
        await Extender(settings, api, os.environ.get(POD_NAME), lease_api).run(stop)
    finally:
        api.close()
        lease_api.close()
        await connection.close()


class PortInUseError(OSError):
    """Somebody else listens there."""


class Extender:
    """All parts put together.

    `pod`: name of our own pod; None where we run as a process. `lease_api`: the elector's own way to the API server.
    """

    def __init__(
        self, settings: Settings, api: ApiServer, pod: str | None = None, lease_api: ApiServer | None = None
    ) -> None:
        self.settings = settings
        self.addresses: dict[str, tuple[str, int]] = {}
        self.log = PlacementLog(settings.placement_log * MEBIBYTE) if settings.placement_log else None
        make = self.log.placer if self.log else Placer
        self.placer = make(clock=_monotonic, hold=settings.hold, mode=settings.mode, policy=settings.policy)
        self.metrics = Metrics(self.placer)
        self.recall = Recall(
            api,
            self.placer,
            lambda: str(time.time()),
            on_recall=lambda outcome: self.metrics.recalls.labels(outcome).inc(),
        )
        self.revisions = Revisions(PodSink(self.placer))
        listed = partial(listed_pod, placer=self.placer)
        self.pods = Reflector(api, "/api/v1/pods", self.revisions, UNFINISHED_PODS, listed)
        self.nodes = Reflector(api, "/api/v1/nodes", NodeSink(self.placer))
        self.fitness = Fitness(self._look)
        self.kept_out = ""  # why we have waited in vain for our port; empty where we have not
        self.leadership = self._leadership(api, lease_api or api, pod) if settings.leader_election.enabled else None
        # Without an election too: what is bound must be what was looked at.
        alone = LeaderFence(self.revisions, lambda: 1, str)
        self.binder = Binder(
            api,
            Binds(self.placer, self.leadership.fence() if self.leadership else alone),
            on_error=lambda kind: self.metrics.bind_errors.labels(kind).inc(),
        )
        self.drift = DriftCheck(api, self.placer, self.metrics.drift)
        self.metrics.leader.set_function(self._serves)
        self.metrics.lease.set_function(lambda: self.leadership is None or self.leadership.elector.leads())
        verbs, probes = Limits(), GuardLimits()
        shares = allotted({"verbs": verbs.connections, "probes": probes.connections})
        self.verbs = HttpServer(
            Verbs(self.placer, self.binder, self.metrics, self.refusal, self.recall).routes(),
            replace(verbs, connections=shares["verbs"]),
        )
        self.probes = Guard(replace(probes, connections=shares["probes"]), "probes")
        self.label = LeaderLabel(api, settings.leader_election.namespace, pod) if self.leadership and pod else None
        # Several processes share one port by turns; pods have one each, and the Service finds the leader's.
        self.takes_turns = self.leadership is not None and pod is None
        self.queue = self._queue(api)
        self.placer.on_change = self._changed
        self.placer.on_expired = self._expired

    def _changed(self) -> None:
        self.queue.wake()
        self.recall.wake()

    def _expired(self, reservations: int) -> None:
        self.metrics.expired.inc(reservations)
        self.recall.wake()

    def ready(self) -> bool:
        return self.pods.synced.is_set() and self.nodes.synced.is_set()

    def refusal(self) -> str:
        """Why no verb is answered now; empty where they are."""
        if not self.ready():
            return NOT_SYNCED
        return self.leadership.refusal() if self.leadership else ""

    def _serves(self) -> bool:
        """Whether the scheduler gets answers from us: a leader that takes over, or waits for its port, gives none."""
        return "verbs" in self.addresses and not self.refusal()

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until `stop` is set, then finish the requests and binds under way and hand over."""
        probes = _Server(_config(Probes(self.placer, self.metrics, self.ready, self.log).app(), self.probes))
        listener = self._listen("probes", self.settings.probe_port)
        if not self.takes_turns:
            await self.verbs.start(self._listen("verbs", self.settings.port))
        async with asyncio.TaskGroup() as group:
            parts = [self.pods.run(), self.nodes.run(), self._keep_house(), self._lead()]
            if self.log is not None:
                parts.append(self.log.run())
            work = [group.create_task(part) for part in parts]
            group.create_task(probes.serve(sockets=[listener]))
            if self.leadership is not None:
                work.append(group.create_task(self.fitness.run(stop)))
            await stop.wait()
            log.info("stopping")
            probes.should_exit = True
            await self.verbs.stop(DRAIN_WITHIN)
            await self.binder.drain(DRAIN_WITHIN)
            if self.leadership is not None:
                await self.leadership.hand_over()
            for task in work:
                task.cancel()

    async def _lead(self) -> None:
        """Contend when both lists are known: before, every GPU looks idle and no pod released."""
        await self.pods.synced.wait()
        await self.nodes.synced.wait()
        bookings, pods = self.placer.ledger.bookings(), self.placer.pods
        log.info("synced: %d pods on GPUs, %d without a node", len(bookings), len(pods))
        if self.leadership is None:
            await self._duties()
        else:
            await self.leadership.run(self._duties)

    async def _duties(self) -> None:
        """What only the leader does, until it is cancelled: be found, release pods from their queues, compare."""
        try:
            async with asyncio.TaskGroup() as group:
                if self.takes_turns:
                    await self._take_port()
                self.queue.wake()
                duties = {"queue": self.queue.run, "drift": self.drift.run, "recall": self.recall.run}
                if self.label is not None:
                    duties["label"] = self.label.keep
                for name, duty in duties.items():
                    group.create_task(kept_up(name, duty, lambda name: self.metrics.duty_failures.labels(name).inc()))
        finally:
            self.queue.deposed()
            if self.takes_turns:
                await self.verbs.stop(DEPOSED_WITHIN)
                self.addresses.pop("verbs", None)
            else:  # the Service leads the scheduler's next connection to the next leader, and those it keeps to us
                self.verbs.part()
            if self.label is not None:
                await self.label.drop()

    async def _take_port(self) -> None:
        """Listen as soon as the leader before us does no longer: one that is paused keeps the port, and is told once.

        After `PORT_AWAITED` it is no leader of before that parts: we are unfit, and another may have a port.
        Two that share it (SO_REUSEPORT) would each get a part of the calls, the paused one too.
        """
        loop = asyncio.get_running_loop()
        pause, said, until = PORT_PAUSE, "", loop.time() + PORT_AWAITED
        while True:
            try:
                await self.verbs.start(self._listen("verbs", self.settings.port))
            except PortInUseError as error:
                if str(error) != said:
                    log.warning("%s: we lead, and serve nothing until whoever listens there ends", error)
                said = str(error)
                if loop.time() >= until:
                    self.kept_out = said
                await asyncio.sleep(pause)
                pause = min(pause * 2, PORT_PAUSE_AT_MOST)
            else:
                self.kept_out = ""
                return

    async def _look(self) -> str:
        """Why we cannot serve, empty where we can: who was kept out of its port cannot until it can be had."""
        address = self.addresses.get("verbs")
        if address is None and self.kept_out:
            try:
                listen(self.settings.host, self.settings.port).close()
            except OSError as error:
                return str(error)
            self.kept_out = ""
        return await reach(address, self.settings.leader_election.renew_deadline)

    def _listen(self, what: str, port: int) -> socket.socket:
        listener = listen(self.settings.host, port)
        self.addresses[what] = listener.getsockname()[:2]
        log.info("%s on %s:%d", what, *self.addresses[what])
        return listener

    def _leadership(self, api: ApiServer, lease_api: ApiServer, pod: str | None) -> Leader:
        options = self.settings.leader_election
        who = options.identity or pod or socket.gethostname()
        candidate = Candidate(f"{who}_{uuid.uuid4().hex[:8]}", options.terms)
        elector = Elector(lease_api, options.namespace, options.lease_name, candidate, unfit=self.fitness.unfit)
        return Leader(elector, api, self.pods, self.revisions, self.placer)

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


class _Server(uvicorn.Server):
    """Leaves signals to the process, which has more to end than this server."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _config(app: object, guard: Guard) -> uvicorn.Config:
    return uvicorn.Config(
        app,  # type: ignore[arg-type]
        http=lambda **given: guard.over(HttpToolsProtocol(**given)),  # type: ignore[arg-type]
        ws="none",  # an upgrade would leave the guard behind
        backlog=BACKLOG,
        log_config=None,
        access_log=False,
        lifespan="off",
        server_header=False,
        timeout_graceful_shutdown=3,
    )


def listen(host: str, port: int) -> socket.socket:
    """A listening socket. Raises OSError, with host and port, where there is none to be had."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        kind = PortInUseError if error.errno == errno.EADDRINUSE else OSError
        raise kind(f"cannot listen on {host}:{port}: {error.strerror}") from None


def _monotonic() -> Seconds:
    return Seconds(time.monotonic())
