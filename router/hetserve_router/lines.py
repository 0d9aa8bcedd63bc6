"""Lines for who may not read them: a full pipe makes nobody wait."""

from __future__ import annotations

import asyncio
import os
import select
from collections import deque
from collections.abc import Callable
from typing import Final

MOST: Final = 1 << 20
"""Bytes of lines that wait."""
SOON: Final = 0.02
"""Seconds for which lines are gathered, or until a full pipe is looked at again."""


class Lines:
    """Writes whole lines to a file, pipe, socket or terminal, in the loop's turns. later: as the loop's `call_later`.

    A pipe that says that it can be written to takes PIPE_BUF bytes at once (POSIX). The descriptor stays a blocking
    one: others share it.
    """

    def __init__(
        self, descriptor: int, later: Callable[[float, Callable[[], None]], asyncio.TimerHandle] | None = None
    ) -> None:
        self._descriptor, self._later = descriptor, later
        self._waiting, self._size = deque[bytes](), 0
        self._timer: asyncio.TimerHandle | None = None
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLOUT)

    def add(self, line: bytes) -> bool:
        """Whether the line, which ends with a line end, will be written; else too many wait."""
        if self._size + len(line) > MOST:
            return False
        self._waiting.append(line)
        self._size += len(line)
        self._go_on_soon()
        return True

    def flush(self) -> None:
        """Writes as much as is taken now."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._waiting and self._poll.poll(0):
            piece = self._next_piece()
            try:
                taken = os.write(self._descriptor, piece)
            except OSError:  # nobody will read it
                self._waiting.clear()
                self._size = 0
                return
            if taken < len(piece):
                self._waiting.appendleft(piece[taken:])
            self._size -= taken
        if self._waiting:
            self._go_on_soon()

    def _go_on_soon(self) -> None:
        if self._timer is None:
            self._timer = (self._later or asyncio.get_running_loop().call_later)(SOON, self.flush)

    def _next_piece(self) -> bytes:
        """Lines of PIPE_BUF bytes together, or the first part of a longer one."""
        piece = self._waiting.popleft()
        if len(piece) > select.PIPE_BUF:
            self._waiting.appendleft(piece[select.PIPE_BUF :])
            return piece[: select.PIPE_BUF]
        while self._waiting and len(piece) + len(self._waiting[0]) <= select.PIPE_BUF:
            piece += self._waiting.popleft()
        return piece
