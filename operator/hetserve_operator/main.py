"""The operator process: settings, API client, probes, workers, kopf's watches, shutdown."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import click
import kopf

from hetserve_operator.apply import Writer
from hetserve_operator.cache import Cache
from hetserve_operator.controller import Controller, StuckError
from hetserve_operator.handlers import EventHandlers, build_registry, kopf_settings
from hetserve_operator.metrics import OperatorMetrics
from hetserve_operator.observe import Observer
from hetserve_operator.settings import OperatorSettings
from hetserve_operator.workqueue import Key, WorkQueue
from hetserve_shell import process
from hetserve_shell.descriptors import allotted
from hetserve_shell.http.listener import listen
from hetserve_shell.http.probes import LIMITS, probe_server
from hetserve_shell.kube.client import ApiServer, ApiStatusError, KubernetesApi
from hetserve_shell.kube.connection import ApiConnection, ApiUnreachableError
from hetserve_shell.tasks.supervisor import supervise

log = logging.getLogger(__name__)

CAPACITY_DELAY: Final = 1.0
"""Seconds for which changes of the cluster are gathered; a bound pod may affect many services."""
SAFETY_LOOKS: Final = 10
"""Each service is looked at at least once in this many resync intervals."""
SYNC_RETRY: Final = 1.0
PROBES_DRAIN_WITHIN: Final = 3.0
NOT_SYNCED: Final = "caches are not synced"
API_TIMEOUT: Final = 30.0
"""Seconds for a request: an admission webhook may take as long."""


@click.command()
@process.config_option
@process.kubeconfig_option
@click.option("--host", help="Address of the probe port.")
@click.option("--probe-port", type=int, help="Port of health, readiness and metrics.")
@process.log_level_option
@click.version_option(package_name="hetserve")
def main(config_path: Path | None, kubeconfig: Path | None, **flags: str | int | None) -> None:
    """Operator of hetserve: plans InferenceServices and keeps their Deployments at the plan."""
    settings = process.settings_or_exit(OperatorSettings, config_path, flags)
    process.log_to_stderr(settings.log_level)
    # kopf logs every event.
    logging.getLogger("kopf.objects").setLevel(logging.WARNING)
    process.run_or_exit(asyncio.run, serve(settings, kubeconfig))


async def serve(settings: OperatorSettings, kubeconfig: Path | None) -> None:
    """Run until SIGTERM or SIGINT."""
    connection = await ApiConnection.connect(kubeconfig, user_agent="hetserve-operator")
    api = KubernetesApi(connection, timeout=API_TIMEOUT)
    try:
        await Operator(settings, api, kubeconfig).run()
    finally:
        api.close()
        await connection.close()


class Operator:
    """Wires cache, queue, handlers, observer, controller and probes."""

    def __init__(self, settings: OperatorSettings, api: ApiServer, kubeconfig: Path | None) -> None:
        loop = asyncio.get_running_loop()
        self.settings = settings
        self.kubeconfig = kubeconfig
        self.clock: Callable[[], float] = loop.time
        self.metrics = OperatorMetrics()
        self.cache = Cache()
        self.queue = WorkQueue(self.clock)
        self.synced = asyncio.Event()
        self.watching = asyncio.Event()
        self.stop = asyncio.Event()
        now: Callable[[], datetime] = _now
        self.observer = Observer(api, self.cache, settings.planning, now)
        self.feed = EventHandlers(self.cache, self.observer.interests, self._add, self._add_later, self.queue.renew)
        self.controller = Controller(self.observer, Writer(api, socket.gethostname(), now), self.metrics, self.clock)

    def not_ready(self) -> str:
        """Why /readyz fails; empty if it does not."""
        return "" if self.synced.is_set() and self.watching.is_set() else NOT_SYNCED

    async def run(self) -> None:
        """Serves probes, fills the cache, then watches and works until a signal."""
        process.stop_on_signals(self.stop)
        limits = replace(LIMITS, connections=allotted({"probes": LIMITS.connections})["probes"])
        probes = probe_server(self.metrics.text, self.not_ready, limits=limits)
        listener = listen(self.settings.host, self.settings.probe_port)
        log.info("probes on %s:%d", *listener.getsockname()[:2])
        await probes.start(listener)
        registry = build_registry(self.feed, self._login)
        # Created before kopf starts: at its end kopf reports later tasks as its own hung ones.
        tasks = self.start()
        tasks += [asyncio.create_task(event.wait()) for event in (self.synced, self.stop)]
        try:
            # kopf discovers kinds once, so start it after the CRDs exist.
            await asyncio.wait(tasks[-2:], return_when=asyncio.FIRST_COMPLETED)
            if not self.stop.is_set():
                await kopf.operator(
                    registry=registry,
                    settings=kopf_settings(),
                    standalone=True,
                    clusterwide=True,
                    ready_flag=self.watching,
                )
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await probes.stop(PROBES_DRAIN_WITHIN)

    def start(self) -> list[asyncio.Task[object]]:
        """Starts the tasks that list and work, without kopf's watches."""
        loops = [("worker", self._work)] * self.settings.workers
        loops += [("resync", self._resync), ("looks", self._look_again)]
        return [asyncio.create_task(self._supervised(name, loop), name=name) for name, loop in loops]

    async def _supervised(self, name: str, loop: Callable[[], Awaitable[None]]) -> None:
        await supervise(name, loop, self.metrics.task_failures.labels(name).inc, clock=self.clock)

    def _add(self, key: Key) -> None:
        self.queue.add(key, self.settings.debounce)

    def _add_later(self, key: Key) -> None:
        self.queue.add(key, CAPACITY_DELAY)

    async def _resync(self) -> None:
        """Lists once; then checks periodically whether the watches have lost deletions."""
        while True:
            try:
                await (self.observer.recount() if self.synced.is_set() else self.observer.relist())
            except Exception as error:
                self.metrics.errors.labels("list").inc()
                expected = isinstance(error, ApiStatusError | ApiUnreachableError)
                log.warning("cannot list: %s", error, exc_info=not expected)
                await asyncio.sleep(SYNC_RETRY)
                continue
            self.synced.set()
            await asyncio.sleep(self.settings.resync)

    async def _look_again(self) -> None:
        """Queues every service once per period, one after the other, in case that an event was lost."""
        await self.synced.wait()
        while True:
            # A service that went without an event is only remembered; a look removes its memory.
            keys = sorted({*self.cache.keys(), *self.controller.remembered})
            for key in keys:
                await asyncio.sleep(SAFETY_LOOKS * self.settings.resync / len(keys))
                self._add(key)
            if not keys:
                await asyncio.sleep(self.settings.resync)

    async def _work(self) -> None:
        await self.synced.wait()
        while True:
            key = await self.queue.get()
            self.metrics.waiting.set(len(self.queue))
            await self._work_on(key)

    async def _work_on(self, key: Key) -> None:
        """Reconciles one service; an error affects only it and is retried later."""
        try:
            with self.metrics.seconds.time():
                wake_after = await self.controller.reconcile(key)
        except asyncio.CancelledError:
            raise
        except Exception as error:
            self.metrics.errors.labels(type(error).__name__).inc()
            delay = self.queue.failed(key)
            expected = isinstance(error, ApiStatusError | ApiUnreachableError | StuckError)
            log.warning("%s: %s; again in %.1f s", key, error, delay, exc_info=not expected)
            return
        self.queue.done(key)
        if wake_after is not None:
            self.queue.add(key, wake_after)

    def _login(self, **kwargs: Any) -> kopf.ConnectionInfo | None:
        if self.kubeconfig is None:
            return kopf.login_with_service_account(**kwargs)
        os.environ["KUBECONFIG"] = str(self.kubeconfig)
        return kopf.login_with_kubeconfig(**kwargs)


def _now() -> datetime:
    return datetime.now(UTC)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        main()
