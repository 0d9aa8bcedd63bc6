"""What follows the election: a leader takes over before it serves, and serves only while it leads."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, Protocol

from hetserve.placement import State
from hetserve.placement.placer import Placer
from hetserve_extender.leader.fence import FencedApi, Revisions
from hetserve_extender.leader.fencing import Fence, bindable, stamp_of
from hetserve_shell.kube.client import ApiServer, ApiStatusError
from hetserve_shell.kube.connection import ApiUnreachableError
from hetserve_shell.leader.elector import Elector

log = logging.getLogger(__name__)

ENDS_WITHIN: Final = 5.0
"""Seconds for the leader's duties to end: requests under way are cancelled, the label is taken off."""
_PAUSE: Final = 0.2


class Pods(Protocol):
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


@dataclass(slots=True)
class Progress:
    """How far a take-over has come, from the term in which it began.

    It stands while nobody else can have led since: a list that began in that term still says what an earlier leader
    could bind, whose requests the fence holds back whenever they come. Were all begun anew after every lapse, a
    machine that needs longer for a list than a term lasts would never serve.
    """

    term: int
    stamp: str
    lists: int
    """How many lists had begun by then."""
    fence: Fence | None = None
    unshown: int | None = None
    """How many lists had begun when the watch had not shown the fence in time."""


@dataclass(slots=True)
class Leadership:
    """Runs `duties` (which never return) while we lead, and says why a verb cannot be answered."""

    elector: Elector
    api: ApiServer
    pods: Pods
    revisions: Revisions
    placer: Placer
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
    secret: Callable[[], str] = secrets.token_hex
    """Makes a text that nobody can guess, for the fence of each term."""
    _serving: int = 0
    _progress: Progress | None = None

    def refusal(self) -> str:
        """Why no verb is answered now; empty where they are."""
        term = self.elector.term()
        if term is None:
            return self.elector.why_not()
        return "" if term == self._serving else "the leader is taking over and has not listed the pods yet"

    def fenced(self) -> FencedApi:
        """The API server for binds, which must end with our leadership."""
        return FencedApi(self.api, self.revisions, self.serving, self.refusal, self.placer.changed)

    def serving(self) -> int | None:
        """Our present term once its take-over is done; None before: a bind that began in an earlier term, and waited
        since, would count on a ledger that does not know yet what others have bound."""
        term = self.elector.term()
        return term if term == self._serving else None

    async def run(self, duties: Callable[[], Awaitable[None]]) -> None:
        """Contend, and do the duties in every term that is won. Never returns; raises what ends the duties."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.elector.run())
            while True:
                term = await self.elector.won()
                log.info("leading: term %d", term)
                leading = asyncio.create_task(self._lead(term, duties))
                lost = asyncio.create_task(self.elector.lost(term))
                try:
                    await asyncio.wait({leading, lost}, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    await _end(leading, lost)
                log.warning("no longer leading: the leader is %s", self.elector.leader())

    async def take_over(self, term: int) -> None:
        """Make the ledger hold what the pods hold at this moment, then serve; repeated until the API server answers.

        After a lapse in which nobody else led it still does: every bind since is ours, and is booked. A take-over that
        such a lapse interrupts goes on where it was.
        """
        while not (self._serving and self.elector.continues(self._serving)):
            try:
                await self._rebuild(self._begun(term))
                break
            except (ApiStatusError, ApiUnreachableError) as error:
                log.warning("taking over: %s", error)
                await self.sleep(_PAUSE)
        self._serving, self._progress = term, None
        bookings, pods = self.placer.ledger.bookings(), self.placer.pods
        log.info("serving: %d pods on GPUs, %d without a node", len(bookings), len(pods))

    async def hand_over(self) -> None:
        """Give the Lease up for the next to lead at once; not where a bind of ours could still land.

        Nor in a take-over: a bind of an earlier leader could, and the next would raise no fence against it.
        """
        if not self.elector.leads():
            return
        if self.refusal():
            log.warning("ending in a take-over: the next leader waits for our Lease to end, and fences")
            return
        self._serving = 0  # from here on no bind is sent: what is open now is all that could land
        open_binds = sum(b.state is State.BINDING for b in self.placer.ledger.bookings().values())
        if open_binds:
            log.warning("%d binds have no outcome: the next leader waits for our Lease to end", open_binds)
            return
        await self.elector.release()

    async def _lead(self, term: int, duties: Callable[[], Awaitable[None]]) -> None:
        await self.take_over(term)
        await duties()

    def _begun(self, term: int) -> Progress:
        """The take-over of this term, or of an earlier one since which nobody else can have led."""
        known = self._progress
        if known is None or not self.elector.continues(known.term):
            stamp = stamp_of(self.elector.candidate.identity, term, self.secret())
            known = self._progress = Progress(term, stamp, self.pods.lists)
        return known

    async def _rebuild(self, so_far: Progress) -> None:
        """Book all that any earlier leader bound or could still bind, and nothing else.

        Order matters: a list that begins in this term says what could still be bound; that is fenced; and what
        landed before the fence is known when the watch, or another list, has shown the fence.
        """
        await self.pods.relist(so_far.lists)
        if self.elector.candidate.handed_over:
            log.info("the last leader ended in order: no bind of it is under way")
        else:
            await self._fence(so_far)
        for uid, booking in list(self.placer.ledger.bookings().items()):
            if not booking.confirmed:  # of an earlier term of ours: what landed of it is confirmed by the list
                self.placer.ledger.release(uid)

    async def _fence(self, so_far: Progress) -> None:
        if so_far.fence is None:
            so_far.fence = Fence(self.api, self.revisions, so_far.stamp, self.elector.clock, self.sleep)
        if so_far.unshown is None:
            shown = await so_far.fence.put_up(bindable(self.revisions, self.placer))
            log.info("fenced the pods that could still have been bound")
            if shown:
                return
            so_far.unshown = self.pods.lists
        await self.pods.relist(so_far.unshown)


async def _end(leading: asyncio.Task[None], lost: asyncio.Task[None]) -> None:
    """Cancel both and let them end; what went wrong while leading is raised.

    Raises RuntimeError where they do not end: the next term could not begin, and only a new process can lead again.
    """
    for _ in range(2):  # the first cancellation can be lost, as asyncio.wait_for of Python 3.11 loses one
        for task in (leading, lost):
            task.cancel()
        _, left = await asyncio.wait({leading, lost}, timeout=ENDS_WITHIN)
        if not left:
            break
        log.error("what the leader does has not ended within %g s", ENDS_WITHIN)
    else:
        raise RuntimeError("what the leader does does not end")
    with contextlib.suppress(asyncio.CancelledError):
        leading.result()
