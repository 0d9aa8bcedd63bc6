"""One extender process: the shipped Placer, event handlers, BindStateMachine, Leadership and Candidate.

Inputs are events, verbs, answers and time; outputs are requests and lists. The check performs what the state machines
ask for, as `verbs.bind_sender` and `leader.leader` do in the product.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from hetserve.base.units import Seconds
from hetserve.placement.event_handlers import NodeEventHandler, PodEventHandler
from hetserve.placement.ledger.bookings import Booking, LedgerError, State
from hetserve.placement.placer import Placer
from hetserve_extender.leader.fence import Fence, FenceState, LeaderFence, Revisions
from hetserve_extender.leader.leadership import Leadership, LeadershipState
from hetserve_extender.verbs.binding import BindStateMachine, Ended, PendingBind, SendBinding
from hetserve_extender.verbs.wire import BindArgs
from hetserve_shell.kube.client import Answer
from modelcheck.election import OTHER, Clock, Election, identity
from modelcheck.truth import NodeTruth, PodTruth, Scope
from testing.extender import Unfenced

Input = tuple[Any, ...]
"""Method of Process and its arguments."""

HOLD: Final = 0.001
"""Seconds of a reservation; much shorter than what ends a doubt: only the order of deadlines matters."""
SHORT: Final = 1.0
"""Seconds between both scales."""


class Ticket(NamedTuple):
    """Key of a request's answer.

    `owner`: UID of the pod of a bind or reading; empty: the fence.
    """

    owner: str
    method: str
    slot: int


class SentRequest(NamedTuple):
    ticket: Ticket
    uid: str
    node: str
    notes: tuple[tuple[str, str], ...]
    version: str


def _nothing(*_: object) -> None:
    """Can be pickled."""


def _first_term() -> int:
    return 1


def _no_words() -> str:
    return ""


def _no_secret() -> str:
    """No tenant guesses here, and random states never meet."""
    return ""


@dataclass(slots=True)
class Listing:
    """The pods' Reflector: numbers of lists begun and arrived; its own ones do not count."""

    lists: int = 0
    taken: int = 0

    async def relist(self, after: int) -> None:
        """The automaton lists by itself."""


@dataclass(slots=True)
class Noticed:
    """Ends the term where a pod shows the fence of a later leader, as `leader.leader` does in the product."""

    leadership: Leadership
    election: Election

    def __call__(self, stamp: str) -> None:
        if self.leadership.superseded(stamp):
            self.election.lease.doubt()
            self.leadership.over()


@dataclass(slots=True)
class Memory:
    clock: Clock
    placer: Placer
    handler: Revisions
    binds: BindStateMachine
    listing: Listing
    election: Election
    leadership: Leadership | None
    ready: bool = False

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
            on_kept=_nothing,
        )
        handler, listing, election = (
            Revisions(PodEventHandler(placer)),
            Listing(),
            Election(identity(who)),
        )
        leadership: Leadership | None = None
        fence = LeaderFence(handler, _first_term, _no_words)
        if scope.processes > 1:
            about = (identity(who), election.lease, election.clock.read)
            leadership = Leadership(*about, listing, handler, placer, _no_secret)
            noticed = Noticed(leadership, election)
            fence = LeaderFence(handler, leadership.serving, _no_words, noticed) if scope.fenced else Unfenced()
        # One read at a time, so that the second waits.
        return cls(
            clock, placer, handler, BindStateMachine(placer, fence, read_at_once=1), listing, election, leadership
        )

    def deadlines(self) -> tuple[bool, float | None]:
        """(something is due now, the time of the next thing)."""
        times = [at for booking in self.placer.ledger.bookings().values() if (at := booking.deadline) is not None]
        now = self.clock.now
        return any(at <= now for at in times), min((at for at in times if at > now), default=None)

    @property
    def fence(self) -> Fence | None:
        """Of the take-over under way, or to be resumed."""
        known = None if self.leadership is None else self.leadership.take_over
        return None if known is None else known.fence

    @property
    def list_awaited(self) -> bool:
        wanted = None if self.leadership is None else self.leadership.wanted_list()
        return wanted is not None and self.listing.taken <= wanted

    @property
    def serves(self) -> bool:
        """Whether it answers the verbs."""
        return self.ready and (self.leadership is None or self.leadership.serving() is not None)


@dataclass(slots=True)
class Process:
    """`sent`, `asked`: results of its last input."""

    scope: Scope
    memory: Memory
    sent: list[SentRequest] = field(default_factory=list)
    asked: bool = False

    def take(self, what: Input) -> None:
        """Handles an input and what follows from it."""
        self.sent, self.asked = [], False
        kind, *about = what
        getattr(self, kind)(*about)
        if self.memory.leadership is not None:
            self._take_over(self.memory.leadership)

    # What the machines ask for

    def _take_over(self, leadership: Leadership) -> None:
        """Lists and writes of a take-over."""
        listing, clock = self.memory.listing, self.memory.election.clock
        while (wanted := leadership.wanted_list()) is not None:
            if listing.taken > wanted:
                leadership.listed()
                if not self.scope.fenced and leadership.take_over is not None:
                    leadership.take_over.fence.state = FenceState.UP
                    leadership.fenced()
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

    def _send(self, bind: PendingBind) -> None:
        args, request = bind.args, bind.request()
        if isinstance(request, SendBinding):
            metadata: Any = request.body["metadata"]
            notes = tuple(sorted(metadata.get("annotations", {}).items()))
            ticket = Ticket(args.uid, "POST", _slot(args.name))
            sent = SentRequest(ticket, metadata.get("uid", ""), args.node, notes, metadata.get("resourceVersion", ""))
        else:
            sent = SentRequest(Ticket(args.uid, "GET", _slot(args.name)), "", "", (), "")
        self.sent.append(sent)

    def _go_on(self, bind: PendingBind) -> None:
        if not isinstance(bind.state, Ended):
            self._send(bind)
        elif bind.verifies:
            self._read(self.memory.binds.next_reads())

    def _read(self, binds: list[PendingBind]) -> None:
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
        namespace = self.scope.shape.pods[pod.slot].namespace
        bind = binds.called(BindArgs(pod.name, namespace, pod.uid, node))
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
        """The fence of a ticket's write, and the pod's UID."""
        fence = self.memory.fence
        assert fence is not None
        (uid,) = (uid for uid in fence.in_flight if _slot(uid.partition("-")[0]) == ticket.slot)
        return fence, uid

    def hear_pod(self, kind: str, pod: PodTruth) -> None:
        held = self.memory.placer.ledger.booking(pod.uid)
        self.memory.handler.apply(kind, self.scope.shape.pod(pod))
        if held is not None and held.state is State.BOUND:
            _assert_place_kept(self.memory.placer, held)
        self._shown(pod.uid)

    def hear_node(self, kind: str, node: NodeTruth) -> None:
        NodeEventHandler(self.memory.placer).apply(kind, self.scope.shape.node(node))

    def take_nodes(self, nodes: tuple[NodeTruth, ...]) -> None:
        NodeEventHandler(self.memory.placer).replace([self.scope.shape.node(node) for node in nodes])

    def take_pods(self, pods: tuple[PodTruth, ...]) -> None:
        memory = self.memory
        memory.handler.replace([self.scope.shape.pod(pod) for pod in pods])
        memory.ready, memory.listing.taken = True, memory.listing.lists
        self._shown(None)

    def _shown(self, uid: str | None) -> None:
        if self.memory.fence is not None and self.memory.fence.state is not FenceState.DOWN:
            self.memory.fence.shown(uid)

    def tidy(self) -> None:
        self._read(self.memory.binds.verify_overdue())

    def begin_serving(self, term: int) -> None:
        """Leads from the start, with nothing to take over."""
        leadership = self.memory.leadership
        if leadership is not None:
            self.memory.election.win(term, OTHER)
            leadership.term = leadership.served = term
            leadership.state = LeadershipState.SERVING

    def lead(self, term: int, holder: str) -> None:
        """The Lease, which names `holder`, is its own: it takes over, or resumes."""
        self.memory.election.win(term, holder)
        self._leadership.won(term)

    def lapse(self) -> None:
        """No renewal in time; a take-over ends."""
        self.memory.election.lapse()
        self._leadership.over()

    def follow(self) -> None:
        self.memory.election.lose()
        self._leadership.over()

    @property
    def _leadership(self) -> Leadership:
        assert self.memory.leadership is not None
        return self.memory.leadership

    def wait_for_reservations(self, seconds: float) -> None:
        """Ends no request."""
        clock, own = self.memory.clock, self.memory.deadlines()[1]
        # A sum would miss its deadline by rounding.
        clock.now = own if own is not None and own - clock.now <= SHORT else clock.now + seconds

    def wait_for_doubts(self, seconds: float) -> None:
        """All deadlines of this scale have come."""
        self.memory.clock.now += seconds + SHORT


def _assert_place_kept(placer: Placer, held: Booking) -> None:
    """If a booking has ended by an event, a waiting pod of its Deployment that asks for the same has its place."""
    ledger, asked = placer.ledger, held.request
    if ledger.booking(asked.uid) is not None or not asked.deployment:
        return
    index = ledger.index
    open_ = all(place in index.row and index.open[index.row[place]] for place in held.places)
    alike = [pod for pod in placer.pods.values() if pod.request.deployment == asked.deployment and not pod.terminating]
    waits = [pod.uid for pod in alike if pod.request.claim == asked.claim and ledger.booking(pod.uid) is None]
    taken = any(set(other.places) & set(held.places) for other in ledger.bookings().values())
    assert not (open_ and waits) or taken, f"the place of {asked.uid} is free, and {waits} of its Deployment wait"


def _slot(name: str) -> int:
    """Number of a pod in its name."""
    return int(name.removeprefix("pod"))
