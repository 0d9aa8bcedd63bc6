"""The process: settings, API server, watches, queue controller, two HTTP servers, and an orderly end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click
import uvicorn
import uvloop

from hetserve.placement.placer import Placer
from hetserve.placement.sinks import NodeSink, PodSink
from hetserve.units import Seconds
from hetserve_extender.api import ApiServer, KubernetesApi
from hetserve_extender.app import NOT_SYNCED, Probes, Verbs
from hetserve_extender.bind import Binder
from hetserve_extender.cluster import UNFINISHED_PODS, Reflector
from hetserve_extender.http_server import HttpServer
from hetserve_extender.metrics import Metrics
from hetserve_extender.queue import QueueController
from hetserve_extender.settings import Settings
from hetserve_shell import process
from hetserve_shell.connection import ApiConnection

log = logging.getLogger(__name__)

HOUSEKEEPING_EVERY: Final = 1.0
DRAIN_WITHIN: Final = 5.0


@click.command()
@process.config_option
@process.kubeconfig_option
@click.option("--host", help="Address of both ports.")
@click.option("--port", type=int, help="Port of the scheduler's verbs.")
@click.option("--probe-port", type=int, help="Port of health, metrics and the ledger.")
@process.log_level_option
@click.version_option(package_name="hetserve")
def main(config_path: Path | None, kubeconfig: Path | None, **flags: str | int | None) -> None:
    """Scheduler extender of hetserve: places pods on GPUs and releases them from their queues."""
    settings = process.settings_or_exit(Settings, config_path, flags)
    if kubeconfig is not None and not kubeconfig.is_file():
        raise click.ClickException(f"kubeconfig {kubeconfig} does not exist")
    process.log_to_stderr(settings.log_level)
    process.run_or_exit(uvloop.run, serve(settings, kubeconfig))


async def serve(settings: Settings, kubeconfig: Path | None) -> None:
    """Run until SIGTERM or SIGINT. Raises what ends any part: without one of them the others must not go on."""
    stop = asyncio.Event()
    process.stop_on_signals(stop)
    # As many connections as binds may be under way: waiting for one would hold a reservation up.
    connection = await ApiConnection.connect(kubeconfig, user_agent="hetserve-extender", connections=256)
    try:
        await Extender(settings, KubernetesApi(connection)).run(stop)
    finally:
        await connection.close()


class Extender:
    """All parts put together."""

    def __init__(self, settings: Settings, api: ApiServer) -> None:
        self.settings = settings
        self.addresses: dict[str, tuple[str, int]] = {}
        self.placer = Placer(clock=_monotonic, hold=settings.hold, mode=settings.mode, policy=settings.policy)
        self.metrics = Metrics(self.placer)
        self.placer.on_expired = self.metrics.expired.inc
        self.binder = Binder(api, self.placer, on_error=lambda kind: self.metrics.bind_errors.labels(kind).inc())
        self.pods = Reflector(api, "/api/v1/pods", PodSink(self.placer), UNFINISHED_PODS)
        self.nodes = Reflector(api, "/api/v1/nodes", NodeSink(self.placer))
        self.queue = QueueController(
            api=api,
            placer=self.placer,
            settings=settings.queue.core,
            unschedulable_after=settings.queue.unschedulable_after,
            debounce=settings.queue.debounce,
            clock=_monotonic,
            wall=lambda: Seconds(time.time()),
            on_round=self.metrics.round,
            on_lift=lambda outcome: self.metrics.lifts.labels(outcome).inc(),
        )
        self.placer.on_change = self.queue.wake

    def ready(self) -> bool:
        return self.pods.synced.is_set() and self.nodes.synced.is_set()

    def refusal(self) -> str:
        """Why no verb is answered now; empty where they are."""
        return "" if self.ready() else NOT_SYNCED

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until `stop` is set, then finish the requests and binds under way."""
        settings = self.settings
        verbs = HttpServer(Verbs(self.placer, self.binder, self.metrics, self.refusal).routes())
        probes = _Server(_config(Probes(self.placer, self.metrics, self.ready).app()))
        sockets = [_listen(settings.host, port) for port in (settings.port, settings.probe_port)]
        for what, listener in zip(("verbs", "probes"), sockets, strict=True):
            self.addresses[what] = listener.getsockname()[:2]
            log.info("%s on %s:%d", what, *self.addresses[what])
        async with asyncio.TaskGroup() as group:
            work = [group.create_task(part) for part in (self.pods.run(), self.nodes.run(), self._keep_house())]
            work.append(group.create_task(self._release()))
            await verbs.start(sockets[0])
            group.create_task(probes.serve(sockets=[sockets[1]]))
            await stop.wait()
            log.info("stopping")
            probes.should_exit = True
            await verbs.stop(DRAIN_WITHIN)
            await self.binder.drain(DRAIN_WITHIN)
            for task in work:
                task.cancel()

    async def _release(self) -> None:
        """Queues start when both lists are known: before, every GPU looks idle and no pod released."""
        await self.pods.synced.wait()
        await self.nodes.synced.wait()
        bookings, pods = self.placer.ledger.bookings(), self.placer.pods
        log.info("synced: %d pods on GPUs, %d without a node", len(bookings), len(pods))
        self.queue.wake()
        await self.queue.run()

    async def _keep_house(self) -> None:
        while True:
            await asyncio.sleep(HOUSEKEEPING_EVERY)
            await self.binder.verify_overdue()


class _Server(uvicorn.Server):
    """Leaves signals to the process, which has more to end than this server."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _config(app: object) -> uvicorn.Config:
    return uvicorn.Config(
        app,  # type: ignore[arg-type]
        log_config=None,
        access_log=False,
        lifespan="off",
        server_header=False,
        timeout_graceful_shutdown=3,
    )


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        raise OSError(f"cannot listen on {host}:{port}: {error.strerror}") from None


def _monotonic() -> Seconds:
    return Seconds(time.monotonic())
