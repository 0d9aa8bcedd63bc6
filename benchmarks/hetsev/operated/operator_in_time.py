"""The operator in virtual time: its own cache, watches, work queue, demand, planner queue and passes.

Planners answer between two looks. What goes over a network is left out, and so are elections.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final

from benchmarks.hetsev.operated.manifests import NAMESPACE, Wishes, objects
from benchmarks.hetsev.operated.measured import EPOCH, ScrapedPrometheus
from benchmarks.hetsev.operated.pods import PodLife
from benchmarks.hetsev.policy import STEP, Decided, Seen
from benchmarks.hetsev.scene import Scene

from hetserve.planning.inputs import PlanSettings
from hetserve.planning.reach import done
from hetserve_operator.demand.cache import DemandCache
from hetserve_operator.demand.polls import DemandPoller
from hetserve_operator.leadership import OperatorLeadership
from hetserve_operator.main import CAPACITY_DELAY
from hetserve_operator.metrics import OperatorMetrics
from hetserve_operator.plans.queue import PlannerQueue
from hetserve_operator.watch.cache import Cache
from hetserve_operator.watch.handlers import EventHandlers, watched
from hetserve_operator.watch.observe import Observer
from hetserve_operator.work.announcer import Announcer
from hetserve_operator.work.apply import Writer
from hetserve_operator.work.controller import Controller
from hetserve_operator.workqueue import DelayQueue, Key
from testing.kit.apiserver import FakeApiServer
from testing.operator import STATUSES

Json = dict[str, Any]
DEBOUNCE: Final = 0.2
"""Seconds until a pass that a change of a service asks for, as of the operator by default."""
worked_out = lru_cache(maxsize=65536)(done)
"""Pure, and asked the same by many runs."""


class OperatorInTime:
    """An operator over a cluster that holds a scene's services."""

    def __init__(self, scene: Scene, wishes: Wishes, settings: PlanSettings) -> None:
        self._begin = self._now = scene.workload.begin
        self.api = FakeApiServer(statuses=STATUSES)
        for raw in objects(scene, wishes):
            self.api.add(raw)
        self.pods = PodLife(self.api, self.moment(), wishes.placement)
        self._prometheus = ScrapedPrometheus(NAMESPACE, {name: scene.assumed.models[name] for name in scene.models})
        self._queue = DelayQueue()
        self._plans = PlannerQueue(self.clock, lambda key: self._queue.add(key, self.clock(), urgent=True))
        self._define(settings)
        self._versions: dict[str, tuple[str, Json]] = {}
        self._heard = self._steps = 0

    def _define(self, settings: PlanSettings) -> None:
        """What reads and writes."""
        metrics, self._cache = OperatorMetrics(), Cache()
        self._demand = DemandCache(
            self.clock,
            self._add,
            configured=True,
            is_quiet=lambda key, demand: self._observer.interests.is_quiet(key, demand),  # noqa: PLW0108  (made below)
        )
        self._observer = Observer(
            self.api, self._cache, settings, self.moment, lambda: True, demand=self._demand.demand
        )
        self._poller = DemandPoller(
            self._demand,
            self._prometheus,
            self._prometheus,
            self._cache.wanted,
            metrics,
            interval=STEP,
            clock=self.clock,
            sleep=_at_once,
        )
        add_later = lambda key: self._queue.add(key, self.clock() + CAPACITY_DELAY)  # noqa: E731
        feed = EventHandlers(self._cache, self._observer.interests, self._add, add_later, self._add)
        self._watches = {one.path.rsplit("/", 1)[1]: one for one in watched(feed)}
        self._announcer = Announcer(self.api, "simulated", self.moment)
        self._controller = Controller(
            self._observer, Writer(self.api), metrics, self.clock, self._plans, self._announcer, OperatorLeadership()
        )

    def clock(self) -> float:
        """Seconds since the beginning."""
        return self._now - self._begin

    def moment(self) -> datetime:
        return datetime.fromtimestamp(EPOCH + self._now, UTC)

    def _add(self, key: Key) -> None:
        self._queue.add(key, self.clock() + DEBOUNCE)

    async def look(self, seen: Seen) -> Decided:
        """Everything that is due now; instances that start and stop by it."""
        self._now = seen.now
        self._hear()
        if self.clock() >= self._steps * STEP:
            await self._measure(seen)
            self._steps += 1
        await self._pass()
        self._answer()
        self.pods.look(seen, self.moment())
        self._hear()
        starts, stops = self.pods.taken()
        return Decided(starts, stops)

    async def _measure(self, seen: Seen) -> None:
        """A scrape, and a poll of Prometheus."""
        self._prometheus.scrape(seen)
        self._prometheus.now = EPOCH + self._now
        self._demand.follow(self._cache.wanted())
        await self._poller.poll()
        for _ in self._demand.tick():
            pass

    async def _pass(self) -> None:
        """A pass of each service that is due."""
        while (key := self._queue.pop(self.clock())) is not None:
            wake_after = await self._controller.reconcile(key)
            await self._announcer.post()
            self._queue.done(key)
            self._hear()
            if wake_after is not None:
                self._queue.add(key, self.clock() + wake_after)

    def _answer(self) -> None:
        """Every plan that is asked for."""
        while (ticket := self._plans.take()) is not None:
            self._plans.settle(ticket, worked_out(ticket.work))

    def _hear(self) -> None:
        """Events of all that has changed."""
        if self.api.revision == self._heard:
            return
        self._heard = self.api.revision
        for path in self._versions.keys() - self.api.objects.keys():
            self._tell(path, "DELETED", self._versions.pop(path)[1])
        for path, raw in self.api.objects.items():
            version = raw["metadata"]["resourceVersion"]
            known = self._versions.get(path)
            if known is None or known[0] != version:
                self._versions[path] = version, raw
                self._tell(path, "MODIFIED", raw)

    def _tell(self, path: str, event: str, raw: Json) -> None:
        watch = self._watches.get(path.rsplit("/", 2)[1])
        if watch is not None:
            watch.apply(event, raw)


async def _at_once(_seconds: float) -> None:
    """Nothing else waits for a turn."""
