"""Writes a fence to the pods and waits until the watch has shown it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from hetserve_extender.leader.fence import Fence, FenceState, FenceWrite, nobody
from hetserve_shell.kube.client import MERGE_PATCH, ApiServer
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


def _log(write: FenceWrite, words: str) -> None:
    if words:
        log.warning("fence %s/%s: %s", write.namespace, write.name, words)
