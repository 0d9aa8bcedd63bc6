"""One extender process of the model: the shipped Placer, sinks and Binder, and what is on its way to them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from hetserve.placement.placer import Mode, Placer
from hetserve.placement.sinks import NodeSink, PodSink
from hetserve.units import Seconds
from hetserve_extender.api import Answer
from hetserve_extender.bind import Binder
from hetserve_extender.fence import Revisions
from modelcheck.takeover import Takeover
from modelcheck.truth import NodeTruth, PodTruth, Shape

HOLD = 0.001
"""Seconds that a reservation lasts here: an instant beside the time after which a doubt is looked up. Only the order
of deadlines matters, so the many sums that 30 s and 75 s can form would be states without a difference."""


class PodEvent(NamedTuple):
    """An event of the pod watch, not yet delivered."""

    kind: str
    pod: PodTruth


class NodeEvent(NamedTuple):
    """An event of the node watch, not yet delivered."""

    kind: str
    node: NodeTruth


class Clock:
    """The one clock of a world."""

    def __init__(self) -> None:
        self.now = 0.0

    def read(self) -> Seconds:
        return Seconds(self.now)


def _nothing(*_: object) -> None:
    """A callback that can be pickled."""


class Sender(Protocol):
    """Where a process's requests go."""

    def send(self, who: int, method: str, path: str, body: Any) -> asyncio.Future[Answer]: ...


@dataclass(slots=True)
class ApiPort:
    """The API server as one process sees it: every request waits until the check answers it."""

    who: int
    world: Sender

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,  # noqa: ARG002
        body: object = None,
        content_type: str = "",  # noqa: ARG002
        timeout: float = 0.0,  # noqa: ARG002, ASYNC109
        unless: object = None,  # noqa: ARG002  (asked before it is sent; the check makes everything happen after)
    ) -> Answer:
        return await self.world.send(self.who, method, path, body)

    def watch(self, path: str, query: Mapping[str, str]) -> AsyncGenerator[bytes, None]:
        raise NotImplementedError("watches are delivered event by event")


@dataclass(slots=True)
class Extender:
    """State of one process that survives a snapshot; its Binder is made anew where no bind is under way.

    Events are kept per object: the order of events of different objects is left open, which allows more
    orders than one watch connection can produce.
    """

    placer: Placer
    pods: dict[int, tuple[PodEvent, ...]] = field(default_factory=dict)
    nodes: dict[str, tuple[NodeEvent, ...]] = field(default_factory=dict)
    seen: dict[int, PodEvent] = field(default_factory=dict)
    sink: Revisions = field(init=False)
    serving: int = 0
    listing: tuple[PodTruth, ...] | None = None
    ready: bool = False

    def __post_init__(self) -> None:
        self.sink = Revisions(PodSink(self.placer))

    @classmethod
    def started(cls, clock: Clock, mode: Mode) -> Extender:
        return cls(
            Placer(
                clock=clock.read,
                hold=Seconds(HOLD),
                mode=mode,
                on_change=_nothing,
                on_pod=_nothing,
                on_expired=_nothing,
            )
        )

    def hear_pod(self, event: PodEvent) -> None:
        slot = event.pod.slot
        self.pods[slot] = (*self.pods.get(slot, ()), event)

    def hear_node(self, event: NodeEvent) -> None:
        name = event.node.name
        self.nodes[name] = (*self.nodes.get(name, ()), event)

    def deliver_pod(self, shape: Shape, slot: int) -> None:
        event, *rest = self.pods.pop(slot)
        if rest:
            self.pods[slot] = tuple(rest)
        self.seen[slot] = event
        self.sink.apply(event.kind, shape.pod(event.pod))

    def repeat_pod(self, shape: Shape, slot: int) -> None:
        event = self.seen.pop(slot)
        self.sink.apply(event.kind, shape.pod(event.pod))

    def deliver_node(self, shape: Shape, name: str) -> None:
        event, *rest = self.nodes.pop(name)
        if rest:
            self.nodes[name] = tuple(rest)
        NodeSink(self.placer).apply(event.kind, shape.node(event.node))

    def begin_list(self, pods: tuple[PodTruth, ...]) -> None:
        """The API server reads the list; what changes from now on comes on the watch that follows it."""
        self.listing = pods
        self.pods.clear()
        self.seen.clear()

    def take_list(self, shape: Shape) -> None:
        assert self.listing is not None
        self.sink.replace([shape.pod(pod) for pod in self.listing])
        self.listing = None
        self.ready = True

    def next_deadline(self, now: float) -> tuple[bool, float | None]:
        """(something is due now, the next time at which something will be)."""
        due, later = False, None
        for booking in self.placer.ledger.bookings().values():
            at = booking.deadline
            if at is not None and at <= now:
                due = True
            elif at is not None and (later is None or at < later):
                later = at
        return due, later


@dataclass(slots=True)
class Running:
    """What a snapshot cannot hold: the Binder, its housekeeping, and a change of leader."""

    binder: Binder
    takeover: Takeover | None = None
    housekeeping: asyncio.Task[None] | None = None
    callers: set[asyncio.Task[str]] = field(default_factory=set)

    @property
    def tidying(self) -> bool:
        return self.housekeeping is not None and not self.housekeeping.done()

    @property
    def busy(self) -> bool:
        return self.tidying or bool(self.binder._running) or (self.takeover is not None and self.takeover.under_way)
