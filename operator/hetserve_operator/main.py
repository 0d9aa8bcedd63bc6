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

from hetserve.demand.observed import Demand
from hetserve.reconcile.cluster.observed import ServiceOutline
from hetserve_operator.demand.cache import DemandCache
from hetserve_operator.demand.poller import DemandPoller
from hetserve_operator.demand.prometheus import LARGEST_OWN, MOST_OWN, Prometheus
from hetserve_operator.leader.leadership import OperatorLeadership
from hetserve_operator.metrics import OperatorMetrics
from hetserve_operator.plans.pool import Planning, PlanningPool
from hetserve_operator.plans.process import PlanningProcess
from hetserve_operator.plans.queue import PlannerQueue
from hetserve_operator.settings import OperatorSettings
from hetserve_operator.watch.cache import Cache
from hetserve_operator.watch.extender_lease import ExtenderLease
from hetserve_operator.watch.handlers import EventHandlers
from hetserve_operator.watch.observe import Observer, RestoredError
from hetserve_operator.watch.watches import watches
from hetserve_operator.work.announcer import Announcer
from hetserve_operator.work.apply import Writer
from hetserve_operator.work.controller import Controller
from hetserve_operator.work.input_statuses import InputStatuses
from hetserve_operator.work.workers import Workers
from hetserve_operator.workqueue import Key, WorkQueue
from hetserve_shell import process
from hetserve_shell.http.probes import LIMITS, probe_server
from hetserve_shell.http.server import allotted, listen
from hetserve_shell.kube.client import LEASE_CONNECTIONS, ApiServer, ApiStatusError, KubernetesApi
from hetserve_shell.kube.connection import ApiConnection, ApiUnreachableError
from hetserve_shell.kube.reviews import REVIEW_CONNECTIONS, check_of
from hetserve_shell.leader.elector import Elector
from hetserve_shell.leader.follower import boot_clock
from hetserve_shell.tasks import garbage
from hetserve_shell.tasks.supervisor import supervise

log = logging.getLogger(__name__)

CAPACITY_DELAY: Final = 3.0
"""Seconds for which changes of the cluster are gathered; a bound pod may affect many services."""
SAFETY_LOOKS: Final = 10
"""Each service is looked at at least once in this many resync intervals."""
SYNC_RETRY: Final = 1.0
PROBES_DRAIN_WITHIN: Final = 3.0
NOT_SYNCED: Final = "caches are not synced"
API_TIMEOUT: Final = 30.0
"""Seconds for a request: an admission webhook may take as long."""
STANDBY_PLANS_AFTER: Final = 20.0
"""Seconds after its start at which an operator that does not lead yet starts a process that plans."""
DRAIN_WITHIN: Final = 5.0
"""Seconds for the answers to what is under way when the process ends."""
LOOK_BACK_EVERY: Final = 5.0
"""Seconds between two looks at the API server's revision: few writes are made meanwhile to a restored one."""
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
    connection = await ApiConnection.connect(kubeconfig, user_agent="hetserve-operator")
    api = KubernetesApi(connection, timeout=API_TIMEOUT)
    lease_api = KubernetesApi(connection, LEASE_CONNECTIONS)
    review_api = KubernetesApi(connection, REVIEW_CONNECTIONS)
    try:
        await Operator(settings, api, lease_api=lease_api, review_api=review_api).run()
    finally:
        for one in (api, lease_api, review_api):
            one.close()
        await connection.close()


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
        loop = asyncio.get_running_loop()
        self.settings = settings
        self._api = api
        self.clock: Callable[[], float] = loop.time
        self.metrics = OperatorMetrics()
        self._check = check_of(settings.probe_authorization, review_api or api)
        self.cache = Cache()
        self.queue = WorkQueue(self.clock)
        self.synced = asyncio.Event()
        self.watching = asyncio.Event()
        self.stop = asyncio.Event()
        now: Callable[[], datetime] = _now
        self.extender = self._extender_lease(api)
        self.demand = self._demand_book()
        self.observer = self._observer(api, now)
        prometheus = settings.metrics.prometheus
        self.ways = Prometheus(prometheus), Prometheus(prometheus, largest=LARGEST_OWN, series=MOST_OWN)
        self.poller = self._demand_poller()
        self.cache.services.subscribe(self._wishes_changed)
        self.feed = EventHandlers(self.cache, self.observer.interests, self._add, self._add_later, self._add_changed)
        self.plans = self._planner_queue()
        self.planners = self._planning_pool(start_planning)
        self.elector = self._elector(lease_api or api, lease_clock) if settings.leader_election.enabled else None
        self.leadership = OperatorLeadership(self.elector)
        self.writer = Writer(api)
        self.announcer = Announcer(api, socket.gethostname(), now, is_busy=lambda: self.plans.first_plans_wait)
        self.input_statuses = self._input_statuses(api, now)
        self.controller = self._controller()
        self.workers = Workers(self.queue, self.controller, self.leadership, self.metrics)
        self.metrics.leader.set_function(lambda: self.leadership.term() is not None)

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
            ("looks", self._look_again),
            ("extender's lease", self._watch_extender),
            ("history", self._look_back),
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

        resumed: it goes on with the last term, in which all were looked at, and what was cut off is queued already.
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

    def _elector(self, lease_api: ApiServer, clock: Callable[[], float]) -> Elector:
        options = self.settings.leader_election
        candidate = options.candidate(os.environ.get(POD_NAME))
        return Elector(lease_api, options.namespace, options.lease_name, candidate, clock)

    def _extender_lease(self, api: ApiServer) -> ExtenderLease:
        options = self.settings.sharing
        return ExtenderLease(api, options.extender_namespace, options.extender_lease, self._add_all)

    def _observer(self, api: ApiServer, now: Callable[[], datetime]) -> Observer:
        return Observer(
            api,
            self.cache,
            self.settings.planning,
            now,
            lambda: self.extender.books_compute,
            demand=self.demand.demand,
        )

    def _controller(self) -> Controller:
        return Controller(
            self.observer,
            self.writer,
            self.metrics,
            self.clock,
            self.plans,
            announcer=self.announcer,
            leadership=self.leadership,
        )

    def _input_statuses(self, api: ApiServer, now: Callable[[], datetime]) -> InputStatuses:
        is_busy = lambda: self.plans.first_plans_wait  # noqa: E731
        return InputStatuses(api, self.cache, self.leadership, now, is_busy=is_busy)

    def _planner_queue(self) -> PlannerQueue:
        # In a burst all plans are recorded before the first is followed, whatever else is due.
        wake = partial(self.queue.add, urgent=True)
        return PlannerQueue(self.clock, wake)

    def _planning_pool(self, start: Callable[[], Awaitable[Planning]]) -> PlanningPool:
        return PlanningPool(
            self.plans,
            self.metrics,
            processes=self.settings.planner_processes,
            deadline=self.settings.planner_deadline,
            start=start,
            due=self._planner_is_due,
        )

    async def _planner_is_due(self) -> None:
        """Waits until this process leads. A standby waits a while, so that one is ready when it takes over."""
        await self.synced.wait()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(STANDBY_PLANS_AFTER):
                await self.leadership.won()

    def _demand_book(self) -> DemandCache:
        options = self.settings.metrics
        return DemandCache(
            self.clock,
            self._add,
            configured=options.prometheus.configured,
            allow_queries=options.allow_queries,
            is_quiet=self._is_quiet,
            show=self.metrics.observe_demand,
        )

    def _is_quiet(self, key: Key, demand: Demand) -> bool:
        return self.observer.interests.is_quiet(key, demand)

    def _demand_poller(self) -> DemandPoller:
        options = self.settings.metrics.prometheus
        return DemandPoller(
            self.demand, *self.ways, self.cache.wanted, self.metrics, interval=options.interval, clock=self.clock
        )

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
                    await self.extender.look()
                await (self.observer.recount() if self.synced.is_set() else self.observer.relist())
            except Exception as error:
                self.metrics.errors.labels("list").inc()
                expected = isinstance(error, ApiStatusError | ApiUnreachableError)
                log.warning("cannot list: %s", error, exc_info=not expected)
                await asyncio.sleep(SYNC_RETRY)
                continue
            self.synced.set()
            await asyncio.sleep(self.settings.resync)

    async def _look_back(self) -> None:
        """Ends the process after etcd was restored from a copy: what it remembers is of the future."""
        while True:
            try:
                await self.observer.look_back()
            except (ApiStatusError, ApiUnreachableError) as error:
                log.debug("the API server does not tell its revision: %s", error)
            except RestoredError as error:
                log.critical("%s; ending, so that all is read anew", error)
                self.stop.set()
            await asyncio.sleep(LOOK_BACK_EVERY)

    async def _watch_extender(self) -> None:
        await self.synced.wait()
        while True:
            await asyncio.sleep(self.extender.pause(self.settings.resync))
            await self.extender.look()

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


def _now() -> datetime:
    return datetime.now(UTC)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        main()
