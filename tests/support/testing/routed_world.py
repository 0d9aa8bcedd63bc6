"""Clients and instances around a router: carries out its actions, and asserts what must hold whatever happens."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from hetserve.base.failures import Failure
from hetserve.dispatch import make_policy
from hetserve.routing.actions import Abandon, Action, Drop, Probe, Send, WakeAt
from hetserve.routing.router import QueueLimits, ServiceRouter
from hetserve.serving.services import Service
from hetserve.serving.system import System
from testing.dispatching import system


def a_service(policy: str = "fcfs", of: System | None = None) -> Service:
    """Types a (0.2, 0.25, 0.4, 0.6 s at batches 1, 2, 5, 10) and b (0.25, 0.45, 0.9, 1.6 s), SLO 1 s."""
    return Service("s", system() if of is None else of, make_policy(policy))


@dataclass
class World:
    """Time goes on by `until` alone. ended: how each query ended."""

    router: ServiceRouter
    now: float = 0.0
    wake_at: float = math.inf
    wakes: int = 0
    hard: dict[int, float] = field(default_factory=dict)
    ended: dict[int, str] = field(default_factory=dict)
    drops: dict[int, Drop] = field(default_factory=dict)
    serving: dict[int, int] = field(default_factory=dict)
    """Query of each busy instance."""
    ready: dict[int, str] = field(default_factory=dict)
    """Type of each instance that joined, and neither drained nor left."""
    left: set[int] = field(default_factory=set)
    suspected: set[int] = field(default_factory=set)
    probes: list[tuple[int, float]] = field(default_factory=list)
    awaited: set[int] = field(default_factory=set)
    """Instances that are to answer a probe."""

    @classmethod
    def of(cls, service: Service, instances: str = "", limits: QueueLimits | None = None) -> World:
        """instances: types of the instances 0, 1, ..."""
        world = cls(ServiceRouter(service, limits))
        for number, kind in enumerate(instances):
            world.join(number, kind)
        return world

    @property
    def live(self) -> list[int]:
        """Queries that somebody awaits."""
        return [query for query in self.hard if query not in self.ended]

    def arrive(self, query: int, items: int = 1, hard: float = math.inf, *, is_retriable: bool = False) -> None:
        self.hard[query] = hard
        self.carry_out(self.router.arrived(query, items, self.now, hard, is_retriable=is_retriable))

    def answer(self, instance: int) -> int:
        query = self.serving.pop(instance)
        actions = self.router.answered(query, self.now)
        if query not in self.ended:
            self._end(query, "answered")
        self.carry_out(actions)
        return query

    def fail(self, instance: int, failure: Failure = Failure.LOST) -> int:
        query = self.serving.pop(instance)
        self._suspect(instance)
        self.carry_out(self.router.failed(query, failure, self.now))
        return query

    def leave(self, query: int) -> None:
        """Its client leaves."""
        self._end(query, "gone")
        self.carry_out(self.router.gone(query, self.now))

    def join(self, instance: int, kind: str) -> None:
        self.ready[instance] = kind
        self.left.discard(instance)
        self.carry_out(self.router.joined(instance, kind, self.now))

    def drain(self, instance: int, *, has_left: bool = False) -> None:
        self.ready.pop(instance, None)
        if has_left:
            self.left.add(instance)
            self.suspected.discard(instance)
        else:
            self.left.discard(instance)
        self.carry_out((self.router.left if has_left else self.router.draining)(instance, self.now))

    def probed(self, instance: int, is_ready: bool) -> None:
        self.awaited.discard(instance)
        if is_ready:
            self.suspected.discard(instance)
        self.carry_out(self.router.probed(instance, is_ready, self.now))

    def until(self, time: float) -> None:
        """Wakes the router whenever it asked for it."""
        before = self.wakes
        while self.wake_at <= time:
            self.now, self.wake_at, self.wakes = max(self.now, self.wake_at), math.inf, self.wakes + 1
            assert self.wakes < before + 10_000, "it wakes for ever"
            self.carry_out(self.router.wake(self.now))
        self.now = max(self.now, time)
        for query in self.live:
            assert self.now <= self.hard[query], f"query {query} has no end by its hard deadline"

    def finish(self) -> None:
        """Every instance answers, one that serves everything joins; then every query has ended."""
        self.join(10**6, "a")
        for _ in range(10_000):
            if not self.live and not self.serving:
                break
            for instance in sorted(self.serving):
                if instance in self.serving:
                    self.answer(instance)
            self.until(self.now + 1.0)
            for instance in sorted(self.awaited):
                self.probed(instance, is_ready=True)
        assert not self.live, f"queries without an end: {self.live}"
        counts = self.router.counts
        assert counts.received == counts.dropped + sum(how == "answered" for how in self.ended.values())
        assert self.router.waiting == 0

    def carry_out(self, actions: list[Action]) -> None:
        for action in actions:
            match action:
                case Send(query, instance):
                    self._send(query, instance)
                case Drop(query, status):
                    self.drops[query] = action
                    self._end(query, str(status))
                case Abandon(query, instance):
                    assert self.serving.pop(instance) == query
                    self._suspect(instance)
                case Probe(instance):
                    self.probes.append((instance, self.now))
                    self.awaited.add(instance)
                case WakeAt(at):
                    assert at < self.wake_at, "a wake-up that changes nothing"
                    self.wake_at = at

    def _send(self, query: int, instance: int) -> None:
        assert query not in self.ended, "it has ended"
        assert query not in self.serving.values(), "an instance has it"
        assert instance not in self.serving, "it is busy"
        assert instance in self.ready, "it is not there"
        assert instance not in self.suspected, "it is suspected"
        service, kind = self.router.service, self.ready[instance]
        assert kind in service.system.types, "its type is unknown"
        assert self.now < self.hard[query], "it would end too late"
        self.serving[instance] = query

    def _suspect(self, instance: int) -> None:
        if instance not in self.left:
            self.suspected.add(instance)

    def _end(self, query: int, how: str) -> None:
        assert query not in self.ended, f"query {query} ended twice: {self.ended[query]}, {how}"
        self.ended[query] = how
