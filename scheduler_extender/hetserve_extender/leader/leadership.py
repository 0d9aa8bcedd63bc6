"""A leadership as a state machine: a leader takes over before it serves, and serves only while it leads.

It decides what comes next (a list, a fence, serving) and sends nothing; `leader` performs it.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from hetserve.placement.placer import Placer
from hetserve_extender.leader.fence import Fence, FenceState, Revisions, bindable
from hetserve_extender.leader.lease_reader import SchedulerLease
from hetserve_shell.leader.lease import stamp_of


class Lists(Protocol):
    """The list-watch of the pods, which fills the ledger."""

    @property
    def lists(self) -> int:
        """How many lists have begun."""
        ...

    async def relist(self, after: int) -> None:
        """List again: when it returns, the ledger has all that was written when `lists` was `after`.

        A list that has begun since then serves, be it over or under way. Raises ApiStatusError, ApiUnreachableError.
        """
        ...


class LeadershipState(Enum):
    """What a process does about leading."""

    FOLLOWING = "it does not lead, or its term has lapsed"
    LISTING = "it takes over: a list that began in its term must arrive"
    FENCING = "it takes over: the fence is being put up"
    LISTING_AGAIN = "it takes over: a list that began after the fence must arrive"
    SERVING = "it answers the verbs while the term lasts"


@dataclass(slots=True)
class TakeOver:
    """How far a take-over is, from the term in which it began.

    It goes on after a lapse unless another scheduler held the Lease: a list that began in that term still says what an
    earlier leader could bind, whose requests the fence holds back whenever they come. Otherwise a machine that needs
    longer for a list than a term lasts would never serve.
    """

    term: int
    listed_after: int
    """How many lists had begun by then."""
    fence: Fence
    unshown_after: int | None = None
    """How many lists had begun when the watch had not shown the fence in time."""


@dataclass(slots=True)
class Leadership:
    """What one process does about leading.

    `identity`: of this process alone. `clock`: that of the Lease's reader [s]. `secret` makes a text that nobody can
    guess, for the fence of each take-over.
    """

    identity: str
    lease: SchedulerLease
    clock: Callable[[], float]
    lists: Lists
    revisions: Revisions
    placer: Placer
    secret: Callable[[], str] = secrets.token_hex
    state: LeadershipState = LeadershipState.FOLLOWING
    term: int = 0
    """The last term that we won."""
    served: int = 0
    """The last term in which we served; 0: none."""
    take_over: TakeOver | None = None
    stamps: frozenset[str] = frozenset()
    """Fences that pods may show while we serve: ours, and those that were there before."""

    def serving(self) -> int | None:
        """Our present term once its take-over is done; None before.

        A bind that began in an earlier term, and waited since, would count on a ledger that does not know yet what
        others have bound.
        """
        return self.served if self.served == self.lease.term and self.lease.leads(self.clock()) else None

    def superseded(self, stamp: str) -> bool:
        """Whether a pod with that fence shows that another leader has taken over since we serve.

        A scheduler that ends in order releases its Lease, and the next leader may fence before we have read that. A
        bind that then reads its pod anew would get past the fence.
        """
        return bool(stamp) and self.serving() is not None and stamp not in self.stamps

    # Inputs

    def won(self, term: int) -> None:
        """A term of ours begins.

        After a lapse in which nobody else led, the ledger still holds what the pods hold: every bind since is ours, and
        is booked.
        """
        self.term = term
        if self.served and self.lease.continues(self.served):
            self._serve()
            return
        known = self.take_over
        if known is None or not self.lease.continues(known.term):
            stamp = stamp_of(self.identity, term, self.secret())
            self.take_over = TakeOver(term, self.lists.lists, Fence(self.revisions, stamp))
        self.state = LeadershipState.LISTING

    def over(self) -> None:
        """The term has ended: by a lapse, or another leads."""
        if self.take_over is not None:
            self.take_over.fence.interrupt()
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
        if take_over is None or self.state is LeadershipState.LISTING_AGAIN:
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

    def _serve(self) -> None:
        """The ledger holds what the pods hold at this moment."""
        if self.take_over is not None:
            self._drop_unconfirmed()
            known = {pod.stamp for pod in self.revisions.unbound.values()}
            self.stamps = frozenset({*known, self.take_over.fence.stamp})
        self.served, self.take_over, self.state = self.term, None, LeadershipState.SERVING

    def _drop_unconfirmed(self) -> None:
        """End bookings of an earlier term of ours: what landed of it is confirmed by the list."""
        for uid, booking in list(self.placer.ledger.bookings().items()):
            if not booking.confirmed:
                self.placer.ledger.release(uid)
