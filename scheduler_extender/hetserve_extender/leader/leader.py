"""Performs a leadership: reads the Lease, takes over, and runs the leader's background tasks."""

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
from hetserve_extender.leader.lease_reader import LeaseReader
from hetserve_shell.kube.client import ApiServer, ApiStatusError
from hetserve_shell.kube.connection import ApiUnreachableError

log = logging.getLogger(__name__)

ENDS_WITHIN: Final = 5.0
"""Seconds for the leader's background tasks to end: requests under way are cancelled."""
HELD: Final = 3.0
"""Seconds for which a verb waits for a take-over: less than the scheduler waits for the verb. What is refused comes
back after a second, and costs the scheduler a status and an event."""


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

    reader: LeaseReader
    identity: str
    api: ApiServer
    pods: Pods
    revisions: Revisions
    placer: Placer
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
    leadership: Leadership = field(init=False)
    _serves: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        reader = self.reader
        self.leadership = Leadership(self.identity, reader.lease, reader.clock, self.pods, self.revisions, self.placer)

    def refusal(self) -> str:
        """Why no verb is answered now; empty while they are."""
        if self.serving() is not None:
            return ""
        leads = self.reader.leads()
        return "the leader is taking over and has not listed the pods yet" if leads else self.reader.why_not()

    def serving(self) -> int | None:
        """Our present term once its take-over is done; None before, and when this process ends."""
        return None if self.reader.ending else self.leadership.serving()

    async def served(self) -> None:
        """Wait for the end of a take-over, but not for long: only a scheduler that leads calls."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(HELD):
                await self._serves.wait()

    def noticed(self, stamp: str) -> None:
        """A pod that is about to be bound shows that fence."""
        if self.leadership.superseded(stamp):
            self.reader.doubt()

    def fence(self) -> LeaderFence:
        """What binds meet, which must end with our leadership."""
        return LeaderFence(self.revisions, self.serving, self.refusal, self.noticed)

    async def run(self, background_tasks: Callable[[], Awaitable[None]]) -> None:
        """Read the Lease, and run the background tasks in every term. Never returns; raises what ends them."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.reader.run())
            while True:
                term = await self.reader.won()
                log.info("leading: term %d", term)
                leading = asyncio.create_task(self._lead(term, background_tasks))
                lost = asyncio.create_task(self.reader.lost(term))
                try:
                    await asyncio.wait({leading, lost}, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    await end_both(leading, lost)
                self.leadership.over()
                self._serves.clear()
                log.warning("no longer leading: the scheduler that leads is %s", self.reader.leader())

    async def take_over(self, term: int) -> None:
        """Make the ledger hold what the pods hold at this moment, then serve; repeated until the API server answers."""
        leadership = self.leadership
        leadership.won(term)
        while leadership.state is not LeadershipState.SERVING:
            if (after := leadership.wanted_list()) is not None:
                await self._list(after)
            elif leadership.take_over is not None:
                await FenceWriter(self.api, self.reader.clock, self.sleep).put_up(leadership.take_over.fence)
                leadership.fenced()
                log.info("fenced the pods that could still have been bound")
        self._serves.set()
        bookings, pods = self.placer.ledger.bookings(), self.placer.pods
        log.info("serving: %d pods on GPUs, %d without a node", len(bookings), len(pods))

    async def _list(self, after: int) -> None:
        try:
            await self.pods.relist(after)
        except (ApiStatusError, ApiUnreachableError) as error:
            log.warning("taking over: %s", error)
            await self.sleep(PAUSE)
        else:
            self.leadership.listed()

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
