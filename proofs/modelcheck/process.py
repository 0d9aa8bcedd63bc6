"""One extender process: the shipped Placer, sinks, Binds, Leadership and Candidate, told one thing at a time.

All that reaches a process is an input (an event, a verb, an answer, time), all that leaves it a request that it
sends or a list that it asks for. What it does in between depends on nothing else. The check performs what the state
machines ask for, as `verbs.bind` and `leader.leader` do in the product.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from hetserve.placement import LedgerError
from hetserve.placement.event_handlers import NodeSink, PodSink
from hetserve.placement.placer import Placer
from hetserve.units import Seconds
from hetserve_extender.leader.fence import Fence, FenceState, LeaderFence, Revisions
from hetserve_extender.leader.leadership import Leadership, LeadershipState
from hetserve_extender.testing import Unfenced
from hetserve_extender.verbs.binding import Bind, BindFence, Binds, Ended, SendBinding
from hetserve_extender.verbs.wire import BindArgs
from hetserve_shell.kube.client import Answer
from modelcheck.election import NOBODY, Clock, Election, identity
from modelcheck.truth import NodeTruth, PodTruth, Scope

Input = tuple[Any, ...]
"""Name of a method of Process and its arguments; equal inputs are the same to a process."""

HOLD: Final = 0.001
"""Seconds that a reservation lasts here: an instant beside the time after which a doubt is looked up. Only the order
of deadlines matters, so the many sums that 30 s and 75 s can form would be states without a difference."""
SHORT: Final = 1.0
"""Seconds: longer than any number of reservations after one another, shorter than what ends a doubt."""


class Ticket(NamedTuple):
    """By what a process knows the answer to a request.

    `owner`: UID of the pod whose bind or reading it is; empty: the fence.
    """

    owner: str
    method: str
    slot: int


class SentRequest(NamedTuple):
    """A request as it left the process."""

    ticket: Ticket
    uid: str
    node: str
    notes: tuple[tuple[str, str], ...]
    version: str


def _nothing(*_: object) -> None:
    """A callback that can be pickled."""


def _first_term() -> int:
    """The term where nobody is elected."""
    return 1


def _no_words() -> str:
    """Why nothing is sent is told nobody here."""
    return ""


def _no_secret() -> str:
    """No tenant guesses here, and states that differ by a random text alone would never meet."""
    return ""


@dataclass(slots=True)
class Listing:
    """The pods' Reflector: how many lists have begun, and which of them was the last to arrive.

    Lists that the Reflector begins of itself are not counted here: they could only save the process one of its own.
    """

    lists: int = 0
    taken: int = 0


@dataclass(slots=True)
class Memory:
    """All that a process is."""

    clock: Clock
    placer: Placer
    sink: Revisions
    binds: Binds
    listing: Listing
    election: Election
    leadership: Leadership | None
    ready: bool = False
    giving_up: bool = False
    """Whether it ends and the Lease is about to be given up."""
    gave_up: bool = False
    """Whether it has given up a Lease that was its own."""

    @classmethod
    def empty(cls, scope: Scope, who: int) -> Memory:
        clock = Clock()
        placer = Placer(
            clock=clock.read,  # type: ignore[arg-type]
            hold=Seconds(HOLD),
            mode=scope.mode,
            on_change=_nothing,
            on_pod=_nothing,
            on_expired=_nothing,
        )
        sink, listing, election = Revisions(PodSink(placer)), Listing(), Election(identity(who), scope.fenced)
        leadership: Leadership | None = None
        fence: BindFence = LeaderFence(sink, _first_term, _no_words)
        if scope.processes > 1:
            leadership = Leadership(election.candidate, election.clock.read, listing, sink, placer, _no_secret)
            fence = LeaderFence(sink, leadership.serving, _no_words) if scope.fenced else Unfenced()
        # One read of a bind in doubt at a time, so that of two the second waits: there are no 17 pods here.
        return cls(clock, placer, sink, Binds(placer, fence, read_at_once=1), listing, election, leadership)

    def deadlines(self) -> tuple[bool, float | None]:
        """(something is due now, the next time at which something else will be)."""
        times = [at for booking in self.placer.ledger.bookings().values() if (at := booking.deadline) is not None]
        now = self.clock.now
        return any(at <= now for at in times), min((at for at in times if at > now), default=None)

    @property
    def fence(self) -> Fence | None:
        """The fence of the take-over under way, or of one to be gone on with."""
        known = None if self.leadership is None else self.leadership.take_over
        return None if known is None else known.fence

    @property
    def list_awaited(self) -> bool:
        wanted = None if self.leadership is None else self.leadership.wanted_list()
        return wanted is not None and self.listing.taken <= wanted

    @property
    def serves(self) -> bool:
        """Whether it answers the verbs and binds: not if it is about to give the Lease up, whatever it believes."""
        return self.ready and not self.giving_up and (self.leadership is None or self.leadership.serving() is not None)


@dataclass(slots=True)
class Process:
    """A process that runs. `sent` and `asked` say what its last input has led to."""

    scope: Scope
    memory: Memory
    sent: list[SentRequest] = field(default_factory=list)
    asked: bool = False
    """Whether it has asked for a list."""

    def take(self, what: Input) -> None:
        """Do what an input asks for and all that follows until the next input."""
        self.sent, self.asked = [], False
        kind, *about = what
        getattr(self, kind)(*about)
        if self.memory.leadership is not None:
            self._take_over(self.memory.leadership)

    # What the machines ask for

    def _take_over(self, leadership: Leadership) -> None:
        """Lists and writes of a take-over; pauses change nothing here, and the watch is never given up."""
        listing, clock = self.memory.listing, self.memory.election.clock
        while (wanted := leadership.wanted_list()) is not None:
            if listing.taken > wanted:
                leadership.listed()
                continue
            if listing.lists <= wanted:
                listing.lists, self.asked = listing.lists + 1, True
            return
        fence = self.memory.fence
        if leadership.state is LeadershipState.FENCING and fence is not None:
            fence.write_again(clock.now)
            while (write := fence.next_write(clock.now)) is not None:
                notes = tuple(sorted(write.body["metadata"]["labels"].items()))
                self.sent.append(SentRequest(Ticket("", "PATCH", _slot(write.name)), write.uid, "", notes, ""))
            leadership.fenced()

    def _send(self, bind: Bind) -> None:
        args, request = bind.args, bind.request()
        if isinstance(request, SendBinding):
            metadata: Any = request.body["metadata"]
            notes = tuple(sorted(metadata.get("annotations", {}).items()))
            ticket = Ticket(args.uid, "POST", _slot(args.name))
            sent = SentRequest(ticket, metadata.get("uid", ""), args.node, notes, metadata.get("resourceVersion", ""))
        else:
            sent = SentRequest(Ticket(args.uid, "GET", _slot(args.name)), "", "", (), "")
        self.sent.append(sent)

    def _go_on(self, bind: Bind) -> None:
        """A bind has followed an answer."""
        if not isinstance(bind.state, Ended):
            self._send(bind)
        elif bind.verifies:
            self._read(self.memory.binds.next_reads())

    def _read(self, binds: list[Bind]) -> None:
        for bind in binds:
            self._send(bind)

    # Inputs

    def filter(self, pod: PodTruth, offered: tuple[str, ...]) -> None:
        try:
            self.memory.placer.filter(self.scope.shape.pod(pod), offered)
        except (LedgerError, ValueError):
            return

    def bind(self, pod: PodTruth, node: str) -> None:
        binds = self.memory.binds
        joins = pod.uid in binds.running
        bind = binds.called(BindArgs(pod.name, "default", pod.uid, node))
        if not joins and not isinstance(bind.state, Ended):
            self._send(bind)

    def answer(self, ticket: Ticket, answer: Answer) -> None:
        if ticket.owner:
            bind = self.memory.binds.running[ticket.owner]
            self.memory.binds.answered(bind, answer)
            self._go_on(bind)
        else:
            fence, uid = self._written(ticket)
            fence.answered(uid, answer)

    def lose(self, ticket: Ticket) -> None:
        if ticket.owner:
            bind = self.memory.binds.running[ticket.owner]
            self.memory.binds.lost(bind, "no answer")
            self._go_on(bind)
        else:
            fence, uid = self._written(ticket)
            fence.lost(uid, "no answer")

    def _written(self, ticket: Ticket) -> tuple[Fence, str]:
        """The fence whose write a ticket is, and the pod's UID."""
        fence = self.memory.fence
        assert fence is not None
        (uid,) = (uid for uid in fence.in_flight if _slot(uid.partition("-")[0]) == ticket.slot)
        return fence, uid

    def hear_pod(self, kind: str, pod: PodTruth) -> None:
        self.memory.sink.apply(kind, self.scope.shape.pod(pod))
        self._shown(pod.uid)

    def hear_node(self, kind: str, node: NodeTruth) -> None:
        NodeSink(self.memory.placer).apply(kind, self.scope.shape.node(node))

    def take_nodes(self, nodes: tuple[NodeTruth, ...]) -> None:
        NodeSink(self.memory.placer).replace([self.scope.shape.node(node) for node in nodes])

    def take_pods(self, pods: tuple[PodTruth, ...]) -> None:
        memory = self.memory
        memory.sink.replace([self.scope.shape.pod(pod) for pod in pods])
        memory.ready, memory.listing.taken = True, memory.listing.lists
        self._shown(None)

    def _shown(self, uid: str | None) -> None:
        if self.memory.fence is not None and self.memory.fence.state is not FenceState.DOWN:
            self.memory.fence.shown(uid)

    def tidy(self) -> None:
        self._read(self.memory.binds.verify_overdue())

    def begin_serving(self, term: int) -> None:
        """It leads from the start of the world on, and has nothing to take over."""
        leadership = self.memory.leadership
        if leadership is not None:
            self.memory.election.win(term, NOBODY)
            leadership.term = leadership.served = term
            leadership.state = LeadershipState.SERVING

    def lead(self, term: int, holder: str) -> None:
        """The Lease, which names `holder`, is its own from now on: it takes over, or goes on."""
        self.memory.election.win(term, holder)
        self._leadership.won(term)

    def lapse(self) -> None:
        """It could not renew the Lease in time; a take-over under way ends."""
        self.memory.election.lapse()
        self._leadership.over()

    def follow(self) -> None:
        """Another leads."""
        self.memory.election.lose()
        self._leadership.over()

    def end(self) -> None:
        """It is to end, and the time is over in which it waits for binds under way. Giving the Lease up takes longer:
        a renewal is under way."""
        self.memory.giving_up = self._leadership.end().gives_up

    def give_up(self) -> None:
        """The Lease can be written again, and is."""
        self.memory.giving_up, self.memory.gave_up = False, self.memory.election.give_up()

    @property
    def _leadership(self) -> Leadership:
        assert self.memory.leadership is not None
        return self.memory.leadership

    def wait_for_reservations(self, seconds: float) -> None:
        """So little time that it ends no request."""
        clock, own = self.memory.clock, self.memory.deadlines()[1]
        # A sum would miss its deadline by a rounding error.
        clock.now = own if own is not None and own - clock.now <= SHORT else clock.now + seconds

    def wait_for_doubts(self, seconds: float) -> None:
        """So much time that every deadline of its scale has come."""
        self.memory.clock.now += seconds + SHORT


def _slot(name: str) -> int:
    """The number of a pod in its name."""
    return int(name.removeprefix("pod"))
