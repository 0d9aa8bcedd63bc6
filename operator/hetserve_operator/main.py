"""The operator process: settings, API client, probes, workers, watches, shutdown."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final

import click

from hetserve.reconcile.cluster.observed import ServiceOutline
from hetserve_operator.demand.cache import DemandCache
from hetserve_operator.demand.polls import DemandPoller
from hetserve_operator.demand.prometheus import LARGEST_OWN, MOST_OWN, Prometheus
from hetserve_operator.leadership import OperatorLeadership
from hetserve_operator.metrics import OperatorMetrics
from hetserve_operator.plans.pool import Planning, PlanningPool, PlanningProcess
from hetserve_operator.plans.queue import PlannerQueue
from hetserve_operator.settings import OperatorSettings
from hetserve_operator.watch.cache import Cache
from hetserve_operator.watch.handlers import EventHandlers, watches
from hetserve_operator.watch.leases import ASK_AGAIN, ExtenderLease, RouterLeases
from hetserve_operator.watch.observe import Observer, RestoredError
from hetserve_operator.work.announcer import Announcer
from hetserve_operator.work.apply import Writer
from hetserve_operator.work.controller import Controller, Workers
from hetserve_operator.work.input_statuses import InputStatuses
from hetserve_operator.workqueue import Key, WorkQueue
from hetserve_shell import process
from hetserve_shell.http.probes import LIMITS, probe_server
from hetserve_shell.http.server import allotted, listen
from hetserve_shell.kube.client import ApiServer, ApiStatusError, api_clients
from hetserve_shell.kube.connection import ApiUnreachableError
from hetserve_shell.kube.reviews import check_of
from hetserve_shell.leader.elector import Elector, boot_clock
from hetserve_shell.tasks import garbage
from hetserve_shell.tasks.supervisor import supervise

log = logging.getLogger(__name__)

CAPACITY_DELAY: Final = 3.0
"""Seconds for which changes of the cluster are gathered; a bound pod may affect many services."""
SAFETY_PASSES: Final = 10
"""Each service has at least one reconcile pass in this many resync intervals."""
SYNC_RETRY: Final = 1.0
PROBES_DRAIN_WITHIN: Final = 3.0
NOT_SYNCED: Final = "caches are not synced"
API_TIMEOUT: Final = 30.0
"""Seconds for a request: an admission webhook may take as long."""
STANDBY_PLANS_AFTER: Final = 20.0
"""Seconds after its start at which an operator that does not lead yet starts a process that plans."""
DRAIN_WITHIN: Final = 5.0
"""Seconds for the answers to what is under way when the process ends."""
CHECK_REVISION_EVERY: Final = 5.0
"""Seconds between two checks of the API server's revision: few writes are made meanwhile to a restored one."""
EVENTS_WITHIN: Final = 2.0
"""Seconds for the Events that wait when the process ends."""
POD_NAME: Final = "POD_NAME"
"""Environment variable with the name of our own pod, by the downward API."""


@click.command()
@process.config_option
@process.kubeconfig_option
@click.option("--host", help="Address of the probe port.")
@click.option("--probe-port", type=int, help="Port of health, readiness and metrics.")
@click.option("--identity", help="Who we are in the Lease; default: the pod, else the host.")
@process.probe_authorization_option
@process.log_level_option
@click.version_option(package_name="hetserve")
def main(config_path: Path | None, kubeconfig: Path | None, identity: str | None, **flags: str | int | None) -> None:
    """Operator of hetserve: plans InferenceServices and keeps their Deployments at the plan."""
    garbage.relax()
    settings = process.settings_or_exit(OperatorSettings, config_path, flags)
    if identity:
        settings = settings.identified(identity)
    process.log_to_stderr(settings.log_level)
    process.run_or_exit(asyncio.run, serve(settings, kubeconfig))


async def serve(settings: OperatorSettings, kubeconfig: Path | None) -> None:
    """Run until SIGTERM or SIGINT."""
    async with api_clients(kubeconfig, "hetserve-operator", API_TIMEOUT) as (api, lease_api, review_api):
        await Operator(settings, api, lease_api=lease_api, review_api=review_api).run()


class Operator:
    """Wires cache, queue, handlers, election, observer, planners, controller, workers and probes.

    lease_api: the elector's own way to the API server; review_api: that of the probe port, which asks who may read.
    lease_clock: seconds, as of the elector.
    """

    def __init__(
        self,
        settings: OperatorSettings,
        api: ApiServer,
        *,
        start_planning: Callable[[], Awaitable[Planning]] = PlanningProcess.start,
        lease_api: ApiServer | None = None,
        review_api: ApiServer | None = None,
        lease_clock: Callable[[], float] = boot_clock,
    ) -> None:
        self.settings = settings
        self._api = api
        self.clock: Callable[[], float] = asyncio.get_running_loop().time
        self._now = partial(datetime.now, UTC)
        self.metrics = OperatorMetrics()
        self._check = check_of(settings.probe_authorization, review_api or api)
        self.cache = Cache()
        self.queue = WorkQueue(self.clock)
        self.synced, self.watching, self.stop = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._define_reading()
        # In a burst all plans are recorded before the first is followed, whatever else is due.
        self.plans = PlannerQueue(self.clock, partial(self.queue.add, urgent=True))
        self.planners = PlanningPool(
            self.plans,
            self.metrics,
            processes=settings.planner_processes,
            deadline=settings.planner_deadline,
            start=start_planning,
            due=self._planner_is_due,
        )
        election = settings.leader_election
        elector = partial(Elector, lease_api or api, election.namespace, election.lease_name)
        candidate = election.candidate(os.environ.get(POD_NAME))
        self.elector = elector(candidate, lease_clock) if election.enabled else None
        self.leadership = OperatorLeadership(self.elector)
        self.metrics.leader.set_function(lambda: self.leadership.term() is not None)
        self._define_writing()

    def _define_reading(self) -> None:
        """What is read: the cluster, the extender's Lease, and the demand."""
        metrics, sharing, prometheus = self.settings.metrics, self.settings.sharing, self.settings.metrics.prometheus
        self.extender = ExtenderLease(self._api, sharing.extender_namespace, sharing.extender_lease, self._add_all)
        self.demand = DemandCache(
            self.clock,
            self._add,
            configured=prometheus.configured,
            allow_queries=metrics.allow_queries,
            is_quiet=lambda key, demand: self.observer.interests.is_quiet(key, demand),  # noqa: PLW0108  (made below)
            show=self.metrics.observe_demand,
        )
        self.routers = RouterLeases(self._api, self.settings.routing, self.clock, self._add_all)
        self.observer = Observer(
            self._api,
            self.cache,
            self.settings.planning,
            self._now,
            lambda: self.extender.counts_pairs,
            demand=self.demand.demand,
            router=self.routers.router,
            mps_memory_limit=sharing.mps_memory_limit,
        )
        self.ways = Prometheus(prometheus), Prometheus(prometheus, largest=LARGEST_OWN, series=MOST_OWN)
        self.poller = DemandPoller(
            self.demand, *self.ways, self.cache.wanted, self.metrics, interval=prometheus.interval, clock=self.clock
        )
        self.cache.services.subscribe(self._wishes_changed)
        self.feed = EventHandlers(self.cache, self.observer.interests, self._add, self._add_later, self._add_changed)

    def _define_writing(self) -> None:
        """What is written: Deployments and statuses while this process leads, and Events."""
        is_busy = lambda: self.plans.first_plans_wait  # noqa: E731
        self.writer = Writer(self._api)
        self.announcer = Announcer(self._api, socket.gethostname(), self._now, is_busy)
        self.input_statuses = InputStatuses(self._api, self.cache, self.leadership, self._now, is_busy=is_busy)
        self.controller = Controller(
            self.observer, self.writer, self.metrics, self.clock, self.plans, self.announcer, self.leadership
        )
        self.workers = Workers(self.queue, self.controller, self.leadership, self.metrics)

    def not_ready(self) -> str:
        """Why /readyz fails; empty if it does not."""
        return "" if self.synced.is_set() and self.watching.is_set() else NOT_SYNCED

    async def run(self) -> None:
        """Serves probes, fills the cache, then watches until a signal, and works while it leads."""
        process.stop_on_signals(self.stop)
        limits = replace(LIMITS, connections=allotted({"probes": LIMITS.connections})["probes"])
        probes = probe_server(self.metrics.text, self.not_ready, limits=limits, check=self._check)
        listener = listen(self.settings.host, self.settings.probe_port)
        log.info("probes on %s:%d", *listener.getsockname()[:2])
        await probes.start(listener)
        tasks = [*self.start(), asyncio.create_task(self._supervised("watches", self._watch))]
        try:
            await self.stop.wait()
        finally:
            await self.hand_over()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            for way in self.ways:
                way.close()
            await probes.stop(PROBES_DRAIN_WITHIN)

    async def _watch(self) -> None:
        """Follows every collection once all are listed, and knows then which can be read."""
        await self.synced.wait()
        async with asyncio.TaskGroup() as group:
            found = watches(self._api, self.cache, self.feed, self.observer.unread)
            for one in found:
                group.create_task(one.run())
            for one in found:
                await one.synced.wait()
            self.watching.set()

    def start(self) -> list[asyncio.Task[object]]:
        """Starts the tasks that list, plan and work, without watches."""
        loops: list[tuple[str, Callable[[], Awaitable[None]]]] = [
            ("resync", self._resync),
            ("looks", self._reconcile_all),
            ("extender's lease", self._watch_extender),
            ("routers' leases", self._watch_routers),
            ("history", self._check_revision),
            ("leadership", self._lead),
            ("status of inputs", self.input_statuses.run),
            ("events", self.announcer.run),
        ]
        loops += [("worker", self.workers.work)] * self.settings.workers
        loops += [("planner", loop) for loop in self.planners.loops()]
        loops += [("demand", loop) for loop in self.poller.loops()]
        return [asyncio.create_task(self._supervised(name, loop), name=name) for name, loop in loops]

    async def _supervised(self, name: str, loop: Callable[[], Awaitable[None]]) -> None:
        await supervise(name, loop, self.metrics.task_failures.labels(name).inc, clock=self.clock)

    async def _lead(self) -> None:
        """Contends when the lists are known: a leader that has not listed would keep one that has from leading."""
        await self.synced.wait()
        async with asyncio.TaskGroup() as group:
            group.create_task(self.leadership.run(self._begin_term, self.metrics.hide))
            if self.elector is not None:
                group.create_task(self.elector.run())

    def _begin_term(self, resumed: bool) -> None:
        """Queues every service; the number of workers limits the load.

        resumed: it goes on with the last term, in which all had their pass, and what was cut off is queued already.
        """
        self.metrics.show()
        if resumed:
            return
        self.controller.forget_all()
        self.input_statuses.begin_term()
        for key in sorted(self.cache.keys()):
            self.queue.renew(key)
            self._add(key)

    async def hand_over(self) -> None:
        """Ends all work: answers to what is under way are awaited, then another leads at once. Events follow."""
        self.leadership.end()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(DRAIN_WITHIN):
                await self.writer.drained()
        await self.leadership.hand_over()
        # They tell what we have written, and do no harm under the next leader.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(EVENTS_WITHIN):
                await self.announcer.post()

    async def _planner_is_due(self) -> None:
        """Waits until this process leads. A standby waits a while, so that one is ready when it takes over."""
        await self.synced.wait()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(STANDBY_PLANS_AFTER):
                await self.leadership.won()

    def _wishes_changed(self, before: ServiceOutline | None, after: ServiceOutline | None) -> None:
        if (before and before.wanted) != (after and after.wanted):
            self.poller.soon()

    def _add_all(self) -> None:
        for key in sorted(self.cache.keys()):
            self._add(key)

    def _add(self, key: Key) -> None:
        self.queue.add(key, self.settings.debounce)

    def _add_changed(self, key: Key) -> None:
        self.queue.renew(key)
        self.queue.add(key, self.settings.debounce, urgent=True)

    def _add_later(self, key: Key) -> None:
        self.queue.add(key, CAPACITY_DELAY)

    async def _resync(self) -> None:
        """Lists once; then checks periodically whether the watches have lost deletions."""
        while True:
            try:
                if not self.synced.is_set():
                    await self.extender.read()
                    await self.routers.read()
                await (self.observer.recount() if self.synced.is_set() else self.observer.relist())
            except Exception as error:
                self.metrics.errors.labels("list").inc()
                expected = isinstance(error, ApiStatusError | ApiUnreachableError)
                log.warning("cannot list: %s", error, exc_info=not expected)
                await asyncio.sleep(SYNC_RETRY)
                continue
            self.synced.set()
            await asyncio.sleep(self.settings.resync)

    async def _check_revision(self) -> None:
        """Ends the process after etcd was restored from a copy: what it remembers is of the future."""
        while True:
            try:
                await self.observer.check_revision()
            except (ApiStatusError, ApiUnreachableError) as error:
                log.debug("the API server does not tell its revision: %s", error)
            except RestoredError as error:
                log.critical("%s; ending, so that all is read anew", error)
                self.stop.set()
            await asyncio.sleep(CHECK_REVISION_EVERY)

    async def _watch_extender(self) -> None:
        await self.synced.wait()
        while True:
            await asyncio.sleep(self.extender.pause(self.settings.resync))
            await self.extender.read()

    async def _watch_routers(self) -> None:
        await self.synced.wait()
        while True:
            await asyncio.sleep(ASK_AGAIN)
            await self.routers.read()

    async def _reconcile_all(self) -> None:
        """Queues every service once per period, one after the other, in case that an event was lost."""
        await self.synced.wait()
        while True:
            # A service that went without an event is only remembered; a pass removes its memory.
            keys = sorted({*self.cache.keys(), *self.controller.remembered})
            for key in keys:
                await asyncio.sleep(SAFETY_PASSES * self.settings.resync / len(keys))
                self._add(key)
            if not keys:
                await asyncio.sleep(self.settings.resync)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        main()
