"""One extender process: the shipped Placer, sinks, Binder and Leadership, told one thing at a time.

All that reaches a process is an input (an event, a verb, an answer, time), all that leaves it a request that it
sends or a list that it asks for. What it does in between depends on nothing else.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from hetserve.placement import LedgerError
from hetserve.placement.event_handlers import NodeSink, PodSink
from hetserve.placement.placer import Mode, Placer
from hetserve.units import Seconds
from hetserve_extender.leader.fence import FencedApi, Revisions
from hetserve_extender.verbs.bind import Binder
from hetserve_extender.verbs.wire import BindArgs
from hetserve_shell.kube.client import Answer, ApiServer
from hetserve_shell.kube.connection import ApiUnreachableError
from modelcheck.election import Contender, Election, identity
from modelcheck.loop import StepLoop
from modelcheck.takeover import Takeover
from modelcheck.truth import NodeTruth, PodTruth, Scope

Input = tuple[Any, ...]
"""Name of a method of Process and its arguments; equal inputs are the same to a process."""

HOLD: Final = 0.001
"""Seconds that a reservation lasts here: an instant beside the time after which a doubt is looked up. Only the order
of deadlines matters, so the many sums that 30 s and 75 s can form would be states without a difference."""
SHORT: Final = 1.0
"""Seconds: longer than any number of reservations after one another, shorter than what ends a doubt."""


class Ticket(NamedTuple):
    """By what a process knows the request that a task waits for: each task waits for one.

    `owner`: UID of the pod whose bind or reading it is; empty: the change of leader.
    """

    owner: str
    method: str
    slot: int


class Sent(NamedTuple):
    """A request as it left the process."""

    ticket: Ticket
    uid: str
    node: str
    notes: tuple[tuple[str, str], ...]
    version: str


class Clock:
    """What a process reads as the time."""

    def __init__(self) -> None:
        self.now = 0.0

    def read(self) -> Seconds:
        return Seconds(self.now)


def _nothing(*_: object) -> None:
    """A callback that can be pickled."""


@dataclass(slots=True)
class Memory:
    """All that a process is where none of its coroutines is under way, and no take-over is to be gone on with."""

    clock: Clock
    placer: Placer
    sink: Revisions
    contender: Contender
    ready: bool = False
    serving: int = 0

    @classmethod
    def empty(cls, mode: Mode, who: int) -> Memory:
        clock = Clock()
        placer = Placer(
            clock=clock.read,
            hold=Seconds(HOLD),
            mode=mode,
            on_change=_nothing,
            on_pod=_nothing,
            on_expired=_nothing,
        )
        return cls(clock, placer, Revisions(PodSink(placer)), Contender(identity(who)))

    def deadlines(self) -> tuple[bool, float | None]:
        """(something is due now, the next time at which something else will be)."""
        times = [at for booking in self.placer.ledger.bookings().values() if (at := booking.deadline) is not None]
        now = self.clock.now
        return any(at <= now for at in times), min((at for at in times if at > now), default=None)


@dataclass(slots=True)
class Process:
    """A process that runs. It is its own API server's client: requests wait in `waiting` until they are answered."""

    scope: Scope
    who: int
    memory: Memory
    loop: StepLoop = field(default_factory=StepLoop)
    waiting: dict[Ticket, asyncio.Future[Answer]] = field(default_factory=dict)
    sent: list[Sent] = field(default_factory=list)
    asked: bool = False
    """Whether it has asked for a list since it was told something."""
    binder: Binder = field(init=False)
    takeover: Takeover | None = None
    callers: set[asyncio.Task[str]] = field(default_factory=set)
    fenced: list[tuple[int, int]] = field(default_factory=list)
    """(pod, status or 0) of the fence's own requests, while it takes over."""

    def __post_init__(self) -> None:
        placer, sink = self.memory.placer, self.memory.sink
        if self.scope.processes == 1:
            self.binder = self._binder(FencedApi(self, sink, lambda: 1, str, placer.changed))
            return
        election = Election(self.memory.contender, self.scope.fenced)
        self.takeover = Takeover.made(election, self, sink, placer, self._list_again)
        self.takeover.leadership._serving = self.memory.serving
        self.binder = self._binder(self.takeover.fenced() if self.scope.fenced else self)

    def _binder(self, api: ApiServer) -> Binder:
        """One read of a bind in doubt at a time, so that of two the second waits: there are no 17 pods here.

        Two that are read beside each other are what two binds are whose answers are lost.
        """
        return Binder(api, self.memory.placer, read_at_once=1)

    def take(self, what: Input) -> None:
        """Do what an input asks for and let every coroutine run until it waits again."""
        self.sent, self.asked = [], False
        kind, *about = what
        getattr(self, kind)(*about)
        self.loop.settle()
        if self.takeover is not None:
            self.memory.serving = self.takeover.leadership._serving
        if not self.taking_over:
            self.fenced.clear()

    # How it stands

    @property
    def taking_over(self) -> bool:
        return self.takeover is not None and self.takeover.under_way

    @property
    def quiet(self) -> bool:
        """Whether no coroutine is under way and none is to be gone on with, so that its memory is all there is."""
        return not self.binder._running and (self.takeover is None or self.takeover.quiet)

    @property
    def serves(self) -> bool:
        """Whether it answers the verbs; who ends takes no more calls, whatever it believes."""
        return self.memory.ready and (self.takeover is None or self.takeover.serves)

    # What its coroutines ask for

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,  # noqa: ARG002
        body: Any = None,
        content_type: str = "",  # noqa: ARG002
        timeout: float | None = None,  # noqa: ARG002, ASYNC109
        unless: object = None,  # noqa: ARG002  (asked before it is sent; the check makes everything happen after)
    ) -> Answer:
        """Send a request and wait until the check answers it."""
        name = path.partition("/pods/pod")[2].split("/")[0]
        metadata = body["metadata"] if body else {}
        # A Binding writes annotations, the fence a label.
        notes = tuple(sorted((metadata.get("annotations", {}) | metadata.get("labels", {})).items()))
        node = body["target"]["name"] if method == "POST" else ""
        ticket = Ticket(self._owner(), method, int(name))
        assert ticket not in self.waiting, "a task waits for one request"
        self.sent.append(Sent(ticket, metadata.get("uid", ""), node, notes, metadata.get("resourceVersion", "")))
        self.waiting[ticket] = self.loop.create_future()
        return await self.waiting[ticket]

    def watch(self, path: str, query: Mapping[str, str]) -> AsyncGenerator[bytes, None]:
        raise NotImplementedError("watches are delivered event by event")

    def _owner(self) -> str:
        task = asyncio.current_task(self.loop)
        return next((uid for uid, (_, running) in self.binder._running.items() if running is task), "")

    def _list_again(self) -> None:
        self.asked = True

    # Inputs

    def filter(self, pod: PodTruth, offered: tuple[str, ...]) -> None:
        try:
            self.memory.placer.filter(self.scope.shape.pod(pod), offered)
        except (LedgerError, ValueError):
            return

    def bind(self, pod: PodTruth, node: str) -> None:
        task = self.loop.create_task(self.binder.bind(BindArgs(pod.name, "default", pod.uid, node)))
        self.callers.add(task)
        task.add_done_callback(self.callers.discard)

    def hang_up(self, pod: PodTruth, node: str) -> None:
        self.bind(pod, node)
        self.loop.settle()
        for caller in list(self.callers):
            caller.cancel()

    def answer(self, ticket: Ticket, answer: Answer) -> None:
        self._note(ticket, answer.status)
        waiting = self.waiting.pop(ticket)
        if not waiting.done():
            waiting.set_result(answer)

    def lose(self, ticket: Ticket) -> None:
        self._note(ticket, 0)
        waiting = self.waiting.pop(ticket)
        if not waiting.done():
            waiting.set_exception(ApiUnreachableError("no answer"))

    def _note(self, ticket: Ticket, status: int) -> None:
        if ticket.method == "PATCH":
            self.fenced.append((ticket.slot, status))

    def hear_pod(self, kind: str, pod: PodTruth) -> None:
        self.memory.sink.apply(kind, self.scope.shape.pod(pod))

    def hear_node(self, kind: str, node: NodeTruth) -> None:
        NodeSink(self.memory.placer).apply(kind, self.scope.shape.node(node))

    def take_nodes(self, nodes: tuple[NodeTruth, ...]) -> None:
        NodeSink(self.memory.placer).replace([self.scope.shape.node(node) for node in nodes])

    def take_pods(self, pods: tuple[PodTruth, ...]) -> None:
        self.memory.sink.replace([self.scope.shape.pod(pod) for pod in pods])
        self.memory.ready = True
        if self.takeover is not None:
            self.takeover.pods.arrived()

    def tidy(self) -> None:
        self.loop.call_soon(self.binder.verify_overdue)

    def begin_serving(self, term: int) -> None:
        """It leads from the start of the world on."""
        if self.takeover is not None:
            self.takeover.serve(term)

    def lead(self, term: int, holder: str) -> None:
        """The Lease, which names `holder`, is its own from now on: it takes over, or goes on."""
        assert self.takeover is not None
        self.takeover.lead(self.loop, term, holder)

    def lapse(self) -> None:
        """It could not renew the Lease in time; a take-over under way ends."""
        assert self.takeover is not None
        self.takeover.election.lapse()
        self._stop()

    def follow(self) -> None:
        """Another leads."""
        assert self.takeover is not None
        self.takeover.election.lose()
        self._stop()

    def _stop(self) -> None:
        assert self.takeover is not None
        self.takeover.stop()
        self.loop.settle()
        self.waiting = {ticket: future for ticket, future in self.waiting.items() if not future.cancelled()}

    def end(self) -> None:
        """It is told to end, answers no more verbs, and the time is over in which it waits for binds under way."""
        assert self.takeover is not None
        self.takeover.end(self.loop)

    def give_up(self) -> None:
        """The Lease can be written again, and is."""
        assert self.takeover is not None
        self.takeover.election.end_renewal()

    def wait_for_reservations(self, seconds: float) -> None:
        """So little time that it ends no request."""
        clock, own = self.memory.clock, self.memory.deadlines()[1]
        # A sum would miss its deadline by a rounding error.
        clock.now = own if own is not None and own - clock.now <= SHORT else clock.now + seconds

    def wait_for_doubts(self, seconds: float) -> None:
        """So much time that every deadline of its scale has come."""
        self.memory.clock.now += seconds + SHORT
