"""The access log: a line of JSON for each query that ends, on standard output."""

from __future__ import annotations

import asyncio
import os
import select
import sys
import time
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, Literal

import orjson

from hetserve_shell.http.takers import Head

if TYPE_CHECKING:
    from hetserve_router.exchange import QueryExchange

AccessLogged = Literal["none", "errors", "all"]
CLIENT_GONE = 499
"""In place of a status, where the client left before its answer ended."""


_STDOUT: Final = 1


class AccessLog:
    """logged: whose lines are written; errors: those with a status from 400 on. least: status that is written.

    lines: where to; default: standard output.
    """

    def __init__(self, logged: AccessLogged, lines: Lines | None = None) -> None:
        self._lines = lines or Lines(_STDOUT)
        self._dropped = 0
        """Lines since the last one that nobody will see."""
        self.least = {"all": 0, "errors": HTTPStatus.BAD_REQUEST, "none": sys.maxsize}[logged]

    def refused(self, head: Head, status: int, service: str) -> None:
        """A request that never became a query. service: that it names; empty: it names none."""
        if status >= self.least:
            self._say(head, status, service or None)

    def ended(self, query: QueryExchange, service: str, status: int, now: float) -> None:
        """A query. now: as `query.arrived` [s]."""
        if status < self.least:
            return
        head, taken, given = query.traffic
        began = query.sent or now
        self._say(
            head,
            status,
            service,
            instance=query.asked,
            items=None if query.facts is None else query.facts.items,
            queueMs=round(1e3 * (began - query.arrived), 3),
            serviceMs=round(1e3 * (now - began), 3) if query.sent else None,
            bytesIn=taken,
            bytesOut=given,
        )

    def close(self) -> None:
        """Writes what is taken at once."""
        self._lines.flush()

    def _say(self, head: Head, status: int, service: str | None, **more: object) -> None:
        at = datetime.fromtimestamp(time.time(), UTC).isoformat(timespec="milliseconds")
        asked = head.get(b"x-request-id")[:200].decode("latin-1") or None
        line = {"time": at, "service": service, "status": status, **more, "requestId": asked}
        if self._dropped:
            line["dropped"] = self._dropped
        self._dropped = 0 if self._lines.add(orjson.dumps(line) + b"\n") else self._dropped + 1


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
