"""Performs a leadership: reads the Lease, takes over, and runs the leader's background tasks."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final

from hetserve.placement.placer import Placer
from hetserve_extender.leader.fence import Fence, FenceState, FenceWrite, LeaderFence, Revisions, nobody
from hetserve_extender.leader.leadership import Leadership, LeadershipState, Lists
from hetserve_extender.leader.lease_reader import LeaseReader
from hetserve_shell.kube.client import MERGE_PATCH, ApiServer, ApiStatusError
from hetserve_shell.kube.connection import ApiUnreachableError

log = logging.getLogger(__name__)

AT_ONCE: Final = 32
"""Pods written side by side."""
SHOWN_WITHIN: Final = 2.0
"""Seconds that the watch may take to show the last write; a list tells the same, and costs more."""
PAUSE: Final = 0.2
"""Seconds before what failed is tried again."""


@dataclass(slots=True)
class FenceWriter:
    """Performs a `Fence` until it is up, or only a new list can tell."""

    api: ApiServer
    clock: Callable[[], float]
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep

    async def put_up(self, fence: Fence) -> None:
        """Write to the pods of a fence that has begun."""
        moved = asyncio.Event()

        def seen(uid: str | None) -> None:
            fence.shown(uid)
            moved.set()

        fence.pods.on_seen = seen
        try:
            await self._write_all(fence)
            await self._all_shown(fence, moved)
        finally:
            fence.pods.on_seen = nobody

    async def _write_all(self, fence: Fence) -> None:
        while fence.state in (FenceState.WRITING, FenceState.PAUSING):
            if fence.state is FenceState.PAUSING:
                await self.sleep(PAUSE)
                fence.write_again(self.clock())
            else:
                await asyncio.gather(*(self._write_each(fence) for _ in fence.to_write[:AT_ONCE]))

    async def _write_each(self, fence: Fence) -> None:
        """Write to one pod after another."""
        while (write := fence.next_write(self.clock())) is not None:
            try:
                answer = await self.api.request("PATCH", write.path, body=write.body, content_type=MERGE_PATCH)
            except ApiUnreachableError as error:
                _log(write, fence.lost(write.uid, str(error)))
            else:
                _log(write, fence.answered(write.uid, answer))

    async def _all_shown(self, fence: Fence, moved: asyncio.Event) -> None:
        try:
            async with asyncio.timeout(SHOWN_WITHIN):
                while fence.state is FenceState.WRITTEN:
                    moved.clear()
                    await moved.wait()
        except TimeoutError:
            log.warning("the watch has not shown %d fenced pods within %g s", len(fence.unshown), SHOWN_WITHIN)
            fence.silent()


def _log(write: FenceWrite, message: str) -> None:
    if message:
        log.warning("fence %s/%s: %s", write.namespace, write.name, message)


ENDS_WITHIN: Final = 5.0
"""Seconds for the leader's background tasks to end: requests under way are cancelled."""
HELD: Final = 3.0
"""Seconds for which a verb waits for a take-over: less than the scheduler waits for the verb. What is refused comes
back after a second, and costs the scheduler a status and an event."""


@dataclass(slots=True)
class Leader:
    """Runs `background_tasks` (which never return) while we lead, and says why a verb cannot be answered."""

    reader: LeaseReader
    identity: str
    api: ApiServer
    pods: Lists
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
