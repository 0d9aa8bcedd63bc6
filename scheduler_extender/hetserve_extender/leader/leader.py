"""Performs a leadership: contends, takes over, runs the leader's background tasks, and gives the Lease up."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final, Protocol

from hetserve.placement.placer import Placer
from hetserve_extender.leader.fence import LeaderFence, Revisions
from hetserve_extender.leader.fence_writer import PAUSE, FenceWriter
from hetserve_extender.leader.leadership import Leadership, LeadershipState, Lists
from hetserve_shell.kube.client import ApiServer, ApiStatusError
from hetserve_shell.kube.connection import ApiUnreachableError
from hetserve_shell.leader.elector import Elector

log = logging.getLogger(__name__)

ENDS_WITHIN: Final = 5.0
"""Seconds for the leader's background tasks to end: requests under way are cancelled, the label is taken off."""


class Pods(Lists, Protocol):
    """The list-watch of the pods, which fills the ledger."""

    async def relist(self, after: int) -> None:
        """List again: when it returns, the ledger has all that was written when `lists` was `after`.

        A list that has begun since then serves, be it over or under way. Raises ApiStatusError, ApiUnreachableError.
        """
        ...


@dataclass(slots=True)
class Leader:
    """Runs `background_tasks` (which never return) while we lead, and says why a verb cannot be answered."""

    elector: Elector
    api: ApiServer
    pods: Pods
    revisions: Revisions
    placer: Placer
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
    leadership: Leadership = field(init=False)

    def __post_init__(self) -> None:
        elector = self.elector
        self.leadership = Leadership(elector.candidate, elector.clock, self.pods, self.revisions, self.placer)

    def refusal(self) -> str:
        """Why no verb is answered now; empty while they are."""
        if self.leadership.serving() is not None:
            return ""
        leads = self.elector.leads()
        return "the leader is taking over and has not listed the pods yet" if leads else self.elector.why_not()

    def fence(self) -> LeaderFence:
        """What binds meet, which must end with our leadership."""
        return LeaderFence(self.revisions, self.leadership.serving, self.refusal)

    async def run(self, background_tasks: Callable[[], Awaitable[None]]) -> None:
        """Contend, and run the background tasks in every term that is won. Never returns; raises what ends them."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.elector.run())
            while True:
                term = await self.elector.won()
                log.info("leading: term %d", term)
                leading = asyncio.create_task(self._lead(term, background_tasks))
                lost = asyncio.create_task(self.elector.lost(term))
                try:
                    await asyncio.wait({leading, lost}, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    await end_both(leading, lost)
                self.leadership.over()
                log.warning("no longer leading: the leader is %s", self.elector.leader())

    async def take_over(self, term: int) -> None:
        """Make the ledger hold what the pods hold at this moment, then serve; repeated until the API server answers."""
        leadership = self.leadership
        leadership.won(term)
        while leadership.state is not LeadershipState.SERVING:
            if (after := leadership.wanted_list()) is not None:
                await self._list(after)
            elif leadership.take_over is not None:
                await FenceWriter(self.api, self.elector.clock, self.sleep).put_up(leadership.take_over.fence)
                leadership.fenced()
                log.info("fenced the pods that could still have been bound")
        bookings, pods = self.placer.ledger.bookings(), self.placer.pods
        log.info("serving: %d pods on GPUs, %d without a node", len(bookings), len(pods))

    async def hand_over(self) -> None:
        """Give the Lease up for the next to lead at once, unless a bind could still land."""
        ending = self.leadership.end()
        if ending.words:
            log.warning("%s", ending.words)
        if ending.gives_up:
            await self.elector.release()

    async def _list(self, after: int) -> None:
        try:
            await self.pods.relist(after)
        except (ApiStatusError, ApiUnreachableError) as error:
            log.warning("taking over: %s", error)
            await self.sleep(PAUSE)
        else:
            self.leadership.listed()
            if self.leadership.state is LeadershipState.SERVING and self.elector.candidate.handed_over:
                log.info("the last leader ended in order: no bind of it is under way")

    async def _lead(self, term: int, background_tasks: Callable[[], Awaitable[None]]) -> None:
        await self.take_over(term)
        await background_tasks()


async def end_both(leading: asyncio.Task[None], lost: asyncio.Task[None]) -> None:
    """Cancel both and let them end; what went wrong while leading is raised.

    Raises RuntimeError if they do not end: the next term could not begin, and only a new process can lead again.
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
