"""One connection: reads requests and answers them in order.

A read can hold thousands of requests, so only the first is answered at once; each other one gets a turn of the loop.
While a coroutine runs or the client does not read, requests wait in a queue that the paused socket bounds.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, cast

from hetserve_shell.http.limits import (
    CONTINUE,
    HttpError,
    LastAnswer,
    Reply,
    Result,
    as_http_error,
    error_answer,
    kept_answer,
    last_answer,
    reply_head,
    too_slow,
)
from hetserve_shell.http.reader import Request, RequestReader

if TYPE_CHECKING:
    from hetserve_shell.http.server import HttpServer

log = logging.getLogger(__name__)


class OpenConnection(asyncio.Protocol, ABC):
    """A connection as its server sees it. parting: whether it ends with the requests that have begun."""

    transport: asyncio.Transport

    def __init__(self, server: HttpServer) -> None:
        self._server = server
        self._open = self._paused = self._blocked = self._served = self.parting = False
        self._until: float | None = None
        self.idle_since = server.now

    @property
    @abstractmethod
    def _busy(self) -> bool: ...

    @property
    def worth(self) -> tuple[bool, bool, float]:
        """Whether it is being answered, has been answered, and since when it is idle [s]; greater stays."""
        return self._busy, self._served, self.idle_since

    def abort(self) -> None:
        if self._open:
            self.transport.abort()

    @abstractmethod
    def part(self) -> None:
        """Asks for no more requests than are on their way."""

    @abstractmethod
    def finish(self) -> None:
        """Finishes the requests that have begun, then closes."""

    @abstractmethod
    def check_time(self, now: float) -> None:
        """Ends what takes too long. now: of the server's clock [s]."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self._open = True
        self._server.opened(self)


class Connection(OpenConnection):
    _reads: type[RequestReader] = RequestReader
    _error_key = "Error"

    def __init__(self, server: HttpServer) -> None:
        super().__init__(server)
        self._reader = self._reads(server, take=self._take, refuse=self._enqueue, proceed=self._proceed)
        self._queue: deque[Request | HttpError] = deque()
        self._current: object | None = None
        """What the answer is made by."""
        self._turn: asyncio.Handle | None = None
        self._had_turn = False
        self._unblocked = asyncio.Event()

    # Asked by the server

    @property
    def idle(self) -> bool:
        """Whether no request is received, waiting or answered."""
        return not self._reader.receiving and not self._busy

    def part(self) -> None:
        self.parting = True

    def finish(self) -> None:
        self.part()
        self._close_if_done()

    def check_time(self, now: float) -> None:
        limits = self._server.limits
        if self._until is not None:  # lingering or unread
            if now >= self._until:
                self.abort()
        elif self._current is not None:
            return  # handlers have time limits of their own
        elif self._reader.receiving:
            seconds = limits.waiting + (0.0 if self._reader.in_head else limits.uploading)
            if now >= self._reader.since + seconds:
                error = too_slow(seconds)
                self._reader.drop(error)
                self._enqueue(error)
        elif now >= self.idle_since + (limits.idle if self._served else limits.waiting):
            self.transport.close()

    # Called by the event loop

    def data_received(self, data: bytes) -> None:
        self._had_turn = False
        self._reader.feed(data)

    def eof_received(self) -> bool:
        """The client sends no more; its whole requests are still answered."""
        self._reader.drop()
        self.parting = True
        return self._busy

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._open = False
        self._unblocked.set()
        self._read_no_more()
        self._server.closed(self)

    def pause_writing(self) -> None:
        self._blocked = True
        self._unblocked.clear()
        self._until = self._server.now + self._server.limits.unread
        self._pause()

    def resume_writing(self) -> None:
        self._blocked = False
        self._unblocked.set()
        self._until = None
        self._serve_queue()

    # Called by the reader

    def _take(self, request: Request) -> None:
        if self._busy or self._had_turn:
            self._queue.append(request)
            self._pause()
            self._await_turn()
        else:
            self._had_turn = True
            self._serve(request)

    def _enqueue(self, error: HttpError) -> None:
        self._queue.append(error)
        if self._turn is None:
            self._serve_queue()

    def _proceed(self) -> None:
        # While busy, a client could take this for the pending answer.
        if not self._busy:
            self.transport.write(CONTINUE)

    # Inside

    @property
    def _busy(self) -> bool:
        return self._current is not None or self._blocked or bool(self._queue)

    def _serve(self, request: Request) -> None:
        self._server.budget.used -= len(request.body)
        try:
            result = request.handler(request.body)
        except Exception as error:
            self._refuse(as_http_error(error))
            return
        if isinstance(result, bytes):
            self._answer(result, request.keep)
        else:
            self._current = self._server.start_task(self._complete(result, request))

    async def _complete(self, work: Reply | Coroutine[Any, Any, Result], request: Request) -> None:
        try:
            result = work if isinstance(work, Reply) else await work
        except Exception as error:
            self._current = None
            self._refuse(as_http_error(error))
            return
        if isinstance(result, Reply):
            await self._send(result, request)
            self._current = None
        else:
            self._current = None
            self._answer(result, request.keep)
        self._serve_queue()

    async def _send(self, reply: Reply, request: Request) -> None:
        """Writes a reply; each block waits for a turn of the loop and for a client that reads."""
        if not self._open:
            return
        self._served = True
        keep = self._keeps(request.keep)
        if not keep:
            self._read_no_more()
        self.transport.write(reply_head(reply, self._server.date, keep=keep))
        for block in () if request.head_only else reply.blocks:
            self.transport.write(block)
            await asyncio.sleep(0)
            while self._blocked and self._open:
                await self._unblocked.wait()
            if not self._open:
                return
        self.idle_since = self._server.now
        if not keep:
            self.transport.close()

    def _await_turn(self) -> None:
        if self._turn is None and self._current is None and not self._blocked:
            self._turn = asyncio.get_running_loop().call_soon(self._take_turn)

    def _take_turn(self) -> None:
        self._turn = None
        self._serve_queue()

    def _serve_queue(self) -> None:
        if self._queue and self._open and self._current is None and not self._blocked:
            item = self._queue.popleft()
            if isinstance(item, HttpError):
                self._refuse(item)
            else:
                self._serve(item)
        if self._queue:
            self._await_turn()
        elif self._open and self._paused and not self._busy:
            self._paused = False
            self.transport.resume_reading()
        self._close_if_done()

    def _answer(self, body: bytes, keep: bool) -> None:
        if not self._open:
            return
        self._served = True
        self.idle_since = self._server.now
        if self._keeps(keep) and not isinstance(body, LastAnswer):
            self.transport.write(kept_answer(body, self._server.date))
        else:
            self._read_no_more()
            self.transport.write(last_answer(body, self._server.date))
            self.transport.close()

    def _keeps(self, keep: bool) -> bool:
        return keep and not (self.parting and not self._queue and not self._reader.receiving)

    def _read_no_more(self) -> None:
        """Before a last answer: a later request would be carried out and never answered."""
        self._reader.drop()
        self._server.budget.used -= sum(len(item.body) for item in self._queue if isinstance(item, Request))
        self._queue.clear()

    def _refuse(self, error: HttpError) -> None:
        """Sends a last answer, then drains the connection, so that a reset does not overtake it."""
        log.warning("%d: %s", error.status, error)
        self._read_no_more()
        if not self._open:
            return
        self._until = self._server.now + self._server.limits.lingering
        self.transport.write(error_answer(error, self._server.date, self._error_key))
        if self.parting or not self.transport.can_write_eof():
            self.transport.close()
            return
        self.transport.write_eof()
        if self._paused:
            self._paused = False
            self.transport.resume_reading()

    def _close_if_done(self) -> None:
        if self.parting and self._open and self.idle and self._until is None:
            self.transport.close()

    def _pause(self) -> None:
        if not self._paused and self._open:
            self._paused = True
            self.transport.pause_reading()
