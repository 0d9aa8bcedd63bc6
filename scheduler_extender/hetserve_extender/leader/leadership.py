"""A leadership as a state machine: a leader takes over before it serves, and serves only while it leads.

It decides what comes next (a list, a fence, serving) and sends nothing; `leader` performs it.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, Protocol

from hetserve.placement import State
from hetserve.placement.placer import Placer
from hetserve_extender.leader.fence import Fence, FenceState, Revisions, bindable
from hetserve_shell.leader.lease import Candidate
from hetserve_shell.leader.stamp import stamp_of


class Lists(Protocol):
    """The list-watch of the pods, which fills the ledger."""

    @property
    def lists(self) -> int:
        """How many lists have begun."""
        ...


class LeadershipState(Enum):
    """What a process does about leading."""

    FOLLOWING = "it does not lead, or its Lease has lapsed"
    LISTING = "it takes over: a list that began in its term must arrive"
    FENCING = "it takes over: the fence is being put up"
    LISTING_AGAIN = "it takes over: a list that began after the fence must arrive"
    SERVING = "it answers the verbs while the term lasts"
    ENDING = "it gives the Lease up and sends no bind"


@dataclass(slots=True)
class TakeOver:
    """How far a take-over is, from the term in which it began.

    It goes on after a lapse unless another process held the Lease: a list that began in that term still says what an
    earlier leader could bind, whose requests the fence holds back whenever they come. Otherwise a machine that needs
    longer for a list than a term lasts would never serve.
    """

    term: int
    listed_after: int
    """How many lists had begun by then."""
    fence: Fence
    unshown_after: int | None = None
    """How many lists had begun when the watch had not shown the fence in time."""


class Ending(NamedTuple):
    """Whether a process that ends gives its Lease up; `words`: why it does not, if that is to be logged."""

    gives_up: bool
    words: str = ""


@dataclass(slots=True)
class Leadership:
    """What one process does about leading, from its election to its end.

    `clock`: that of the election [s]. `secret` makes a text that nobody can guess, for the fence of each take-over.
    """

    candidate: Candidate
    clock: Callable[[], float]
    lists: Lists
    revisions: Revisions
    placer: Placer
    secret: Callable[[], str] = secrets.token_hex
    state: LeadershipState = LeadershipState.FOLLOWING
    term: int = 0
    """The last term that we won."""
    served: int = 0
    """The last term in which we served; 0: none, or we are ending."""
    take_over: TakeOver | None = None

    def serving(self) -> int | None:
        """Our present term once its take-over is done; None before.

        A bind that began in an earlier term, and waited since, would count on a ledger that does not know yet what
        others have bound.
        """
        return self.served if self.served == self.candidate.term and self.candidate.leads(self.clock()) else None

    # Inputs

    def won(self, term: int) -> None:
        """A term of ours begins.

        After a lapse in which nobody else led, the ledger still holds what the pods hold: every bind since is ours, and
        is booked.
        """
        self.term = term
        if self.served and self.candidate.continues(self.served):
            self._serve()
            return
        known = self.take_over
        if known is None or not self.candidate.continues(known.term):
            stamp = stamp_of(self.candidate.identity, term, self.secret())
            self.take_over = TakeOver(term, self.lists.lists, Fence(self.revisions, stamp))
        self.state = LeadershipState.LISTING

    def over(self) -> None:
        """The term has ended: by a lapse, or another leads."""
        if self.take_over is not None:
            self.take_over.fence.interrupt()
        if self.state is not LeadershipState.ENDING:
            self.state = LeadershipState.FOLLOWING

    def wanted_list(self) -> int | None:
        """A list must arrive that began when more than this many had begun; None: none is awaited."""
        if self.take_over is None:
            return None
        if self.state is LeadershipState.LISTING:
            return self.take_over.listed_after
        return self.take_over.unshown_after if self.state is LeadershipState.LISTING_AGAIN else None

    def listed(self) -> None:
        """The list that was wanted has arrived.

        Order matters: a list that begins in this term says what could still be bound; that is fenced; and what landed
        before the fence is known when the watch, or another list, has shown the fence.
        """
        take_over = self.take_over
        if take_over is None or self.state is LeadershipState.LISTING_AGAIN or self.candidate.handed_over:
            self._serve()
        elif take_over.unshown_after is not None:
            self.state = LeadershipState.LISTING_AGAIN
        else:
            self.state = LeadershipState.FENCING
            take_over.fence.put_up(bindable(self.revisions, self.placer), self.clock())
            self.fenced()

    def fenced(self) -> None:
        """The fence may have come further."""
        take_over = self.take_over
        if take_over is None or self.state is not LeadershipState.FENCING:
            return
        if take_over.fence.state is FenceState.UP:
            self._serve()
        elif take_over.fence.state is FenceState.UNKNOWN:
            take_over.unshown_after = self.lists.lists
            self.state = LeadershipState.LISTING_AGAIN

    def end(self) -> Ending:
        """The process ends, and has waited for its binds: give the Lease up for the next to lead at once?

        Not if a bind of ours could still land. Not in a take-over either: a bind of an earlier leader could, and who
        is handed a Lease puts up no fence.
        """
        if not self.candidate.leads(self.clock()):
            return Ending(gives_up=False)
        if self.serving() is None:
            return Ending(False, "ending in a take-over: the next leader waits for our Lease to end, and fences")
        self.served = 0  # from here on no bind is sent: what is open now is all that could land
        self.state = LeadershipState.ENDING
        open_binds = sum(b.state is State.BINDING for b in self.placer.ledger.bookings().values())
        if open_binds:
            return Ending(False, f"{open_binds} binds have no outcome: the next leader waits for our Lease to end")
        return Ending(gives_up=True)

    def _serve(self) -> None:
        """The ledger holds what the pods hold at this moment."""
        if self.take_over is not None:
            self._drop_unconfirmed()
        self.served, self.take_over, self.state = self.term, None, LeadershipState.SERVING

    def _drop_unconfirmed(self) -> None:
        """End bookings of an earlier term of ours: what landed of it is confirmed by the list."""
        for uid, booking in list(self.placer.ledger.bookings().items()):
            if not booking.confirmed:
                self.placer.ledger.release(uid)
