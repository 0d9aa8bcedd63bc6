"""What a pod does that led, after it has handed over and before it is gone."""

from __future__ import annotations

import asyncio
import logging
import socket
import struct
import time
from collections.abc import Awaitable, Callable
from typing import Final

log = logging.getLogger(__name__)

AT_ONCE: Final = struct.pack("ii", 1, 0)
"""Value of SO_LINGER: a connection that is closed is reset."""


async def refuse_calls(
    listener: socket.socket,
    quiet: float,
    least: float,
    within: float,
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
) -> int:
    """Refuses calls until none came for a while, and closes the listener.

    Nodes take a while to learn that calls go to another pod. The address of a pod that is gone answers nothing, and the
    scheduler waits for its whole timeout; a pod whose call is refused it tries again after a second.

    Args:
        listener: Takes the calls.
        quiet: Seconds without a call after which the nodes are believed to know.
        least: Seconds that it stays though none comes: with no pod to place the scheduler calls nobody.
        within: Seconds after which it ends whatever comes.
        clock: Seconds.
        sleep: Waits for so many of them.

    Returns:
        How many calls came.
    """
    came = [began := clock()]

    def refuse(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        came.append(clock())
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, AT_ONCE)
        writer.transport.abort()

    async with await asyncio.start_server(refuse, sock=listener):
        while (left := min(max(came[-1] + quiet, began + least), began + within) - clock()) > 0:
            await sleep(left)
    log.info("refused %d calls that came after the Lease was given up", len(came) - 1)
    return len(came) - 1
