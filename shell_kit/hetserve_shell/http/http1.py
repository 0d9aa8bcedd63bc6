"""One connection of HTTP/1.1: reads requests, and lets their takers answer them in order.

Of what one read brings only the first request is taken at once; each other one gets a turn of the loop. Reading goes
on while a request waits, so that the end of its client is noticed. A request behind another one waits, unparsed but
for what one piece brings; so does the socket, once these are many.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from hetserve_shell.http.connection import OpenConnection
from hetserve_shell.http.http2 import Http2Connection
from hetserve_shell.http.limits import CONTINUE, WHOLE, HttpError, as_http_error, too_slow, write_joined
from hetserve_shell.http.reader import RequestReader
from hetserve_shell.http.takers import NOBODY, Headers, Refusal, Taker, refusal, say_gone

if TYPE_CHECKING:
    from hetserve_shell.http.server import HttpServer

log = logging.getLogger(__name__)

PREFACE: Final = b"PRI"
"""What a client of HTTP/2 sends first, and none of HTTP/1.1."""
_STATUS_LINES: Final = {status.value: b"HTTP/1.1 %d %b\r\n" % (status, status.phrase.encode()) for status in HTTPStatus}
_BODILESS: Final = (HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED)


class Connection(OpenConnection):
    def __init__(self, server: HttpServer) -> None:
        super().__init__(server)
        self._reader = RequestReader(server, take=self._take, refuse=self._enqueue, proceed=self._proceed)
        self._queue: deque[Http1Replier | HttpError] = deque()
        self._current: Http1Replier | None = None
        self._turn: asyncio.Handle | None = None
        self._had_turn = False
        self._is_new, self._begun = True, b""
        """Whether it is not known yet which version of HTTP the client speaks, and what has come of that."""
        self._rest = b""
        """What has come behind a request that waits; while it is much, reading is paused."""
        self._pausing: asyncio.TimerHandle | None = None
        """Says a refusal after its pause."""

    # Asked by the server

    @property
    def worth(self) -> tuple[bool, bool, float]:
        busy, served, since = super().worth
        return busy and self._pausing is None, served, since

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
            return  # takers have time limits of their own
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
        if self._is_new:
            data, self._begun = self._begun + data, b""
            if len(data) < len(PREFACE) and PREFACE.startswith(data):
                self._begun = data
                return
            self._is_new = False
            if data.startswith(PREFACE) and self._by_streams(data):
                return
        if self._busy:
            self._hold(data)
        else:
            self._had_turn = False
            self._parse(data)

    def _by_streams(self, data: bytes) -> bool:
        """Lets a client that begins as one of HTTP/2 be served by it; False: over TLS it has to be agreed on before."""
        streams = Http2Connection(self._server)
        try:
            self.transport.set_protocol(streams)
        except NotImplementedError:
            return False
        self.connection_lost(None)
        streams.connection_made(self.transport)
        if self.parting:
            streams.finish()
        self.switch(streams)
        streams.data_received(data)
        return True

    def eof_received(self) -> bool:
        """A client that ends its side waits for nothing more."""
        self._read_no_more()
        self._give_up()
        return False

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._open = False
        self._read_no_more()
        self._server.closed(self)
        self._give_up()
        self._pause_no_more()

    def pause_writing(self) -> None:
        self._blocked = True
        self._until = self._server.now + self._server.limits.unread

    def resume_writing(self) -> None:
        reply = self._current
        self._blocked = False
        self._until = None
        self._serve_queue()
        if reply is not None and reply.on_resume is not None:
            reply.on_resume()

    # Called by the reader

    def _take(self, taker: Taker, body: bytes | bytearray, keep: bool, head_only: bool, chunks: bool) -> None:
        reply = Http1Replier(self, taker, body, keep, head_only, chunks)
        if self._had_turn or self._busy:
            self._queue.append(reply)
            self._await_turn()
        else:
            self._had_turn = True
            self._serve(reply)

    def _enqueue(self, error: HttpError) -> None:
        self._queue.append(error)
        if self._turn is None:
            self._serve_queue()

    def _proceed(self) -> None:
        # While busy, a client could take this for the pending answer.
        if not self._busy:
            self.transport.write(CONTINUE)

    # Called by the replier

    @property
    def blocked(self) -> bool:
        return self._blocked

    def keeps(self, keep: bool) -> bool:
        """Whether the connection stays after the answer that begins. keep: whether the client wants it."""
        keep = keep and not (self.parting and not (self._rest or self._queue or self._reader.receiving))
        if not keep:
            self._read_no_more()
        return keep

    def head(self, status: int, headers: Headers, framing: bytes, keep: bool) -> bytes:
        """The head of an answer. framing: the header that says how its body ends."""
        if not keep:
            framing += b"connection: close\r\n"
        parts = [_STATUS_LINES.get(status) or b"HTTP/1.1 %d \r\n" % status]
        for name, value in headers:
            parts += name, b": ", value, b"\r\n"
        parts += framing, b"date: ", self._server.date, b"\r\n\r\n"
        return b"".join(parts)

    def ended(self, reply: Http1Replier) -> None:
        """An answer has ended."""
        self.release(reply)
        self._served, self.idle_since = True, self._server.now
        if not reply.keep:
            self.transport.close()
            return
        if self._reader.receiving:  # a request whose first bytes have waited
            self._reader.since = self._server.now
        if self._queue or self._rest:
            self._await_turn()
        elif self.parting:
            self._close_if_done()

    def release(self, reply: Http1Replier) -> Taker:
        """Nothing more is said to a request; returns who took it, whom nothing of it refers to from now on."""
        self._current, reply.over, reply.on_resume = None, True, None
        self._pause_no_more()
        return self._hand_over(reply, NOBODY)

    def refuse_later(self, reply: Http1Replier, error: HttpError) -> None:
        """Says it after its pause; nobody hears of the request meanwhile."""
        self._hand_over(reply, Refusal(error))
        self._pausing = asyncio.get_running_loop().call_later(error.pause, lambda: reply.answer(*refusal(error)))

    # Inside

    def _hand_over(self, reply: Http1Replier, to: Taker) -> Taker:
        """Another one hears of its client from now on, without its body; returns who did."""
        self._server.budget.used -= len(reply.body)
        taker, reply.taker, reply.body = reply.taker, to, b""
        return taker

    @property
    def _busy(self) -> bool:
        return bool(self._current or self._blocked or self._queue or self._rest or self._pausing)

    def _parse(self, data: bytes) -> None:
        at, end = 0, len(data)
        while (at := self._reader.feed_piece(data, at)) < end:
            if self._busy:
                self._hold(data[at:])
                break
        if self._reader.whole is not None and not self._rest:
            self.switch(_Filling(self, self._reader))

    def switch(self, protocol: asyncio.BaseProtocol) -> None:
        """What comes next is for another protocol, unless it comes over TLS."""
        self.transport.pause_reading()  # else uvloop would not see it
        with suppress(NotImplementedError):
            self.transport.set_protocol(protocol)
        self.transport.resume_reading()

    def _hold(self, data: bytes) -> None:
        if self._reader.dead:
            return
        budget = self._server.budget
        self._rest += data
        budget.used += len(data)
        if budget.used > budget.limit:
            self.abort()
        elif len(self._rest) > WHOLE:
            self._pause()

    def _pause(self) -> None:
        if not self._paused and self._open:
            self._paused = True
            self.transport.pause_reading()

    def _resume(self) -> None:
        if self._paused and self._open:
            self._paused = False
            self.transport.resume_reading()

    def _take_rest(self) -> bytes:
        rest, self._rest = self._rest, b""
        self._server.budget.used -= len(rest)
        return rest

    def _serve(self, reply: Http1Replier) -> None:
        self._current = reply
        try:
            reply.taker.take(reply.body, reply)
        except Exception as error:
            reply.refuse(as_http_error(error))

    def _await_turn(self) -> None:
        if self._turn is None and self._current is None and not self._blocked:
            self._turn = asyncio.get_running_loop().call_soon(self._take_turn)

    def _take_turn(self) -> None:
        self._turn = None
        self._serve_queue()

    def _serve_queue(self) -> None:
        """Takes the next request, or reads it of what has waited."""
        if self._open and self._current is None and not self._blocked:
            if self._queue:
                item = self._queue.popleft()
                if isinstance(item, HttpError):
                    self._refuse(item)
                else:
                    self._serve(item)
            elif self._rest:
                self._had_turn = False
                self._parse(self._take_rest())
        if self._queue:
            self._await_turn()
        if not self._rest and (self._pausing is None or self._current is not None):
            self._resume()
        self._close_if_done()

    def _read_no_more(self) -> None:
        """Before a last answer: a later request would be carried out and never answered."""
        self._reader.drop()
        self._take_rest()
        dropped = [item for item in self._queue if isinstance(item, Http1Replier)]
        self._queue.clear()
        for reply in dropped:
            self._server.budget.used -= len(reply.body)
            say_gone(reply.taker)

    def _refuse(self, error: HttpError) -> None:
        """Sends a last answer, after its pause."""
        self._read_no_more()
        if not error.pause or not self._open:
            self._refuse_now(error)
            return
        self._pause()
        self.idle_since = self._server.now
        self._pausing = asyncio.get_running_loop().call_later(error.pause, self._refuse_now, error)

    def _pause_no_more(self) -> None:
        if self._pausing is not None:
            self._pausing.cancel()
            self._pausing = None

    def _refuse_now(self, error: HttpError) -> None:
        """Drains the connection behind the answer, so that a reset does not overtake it."""
        log.warning("%d: %s", error.status, error)
        self._pausing = None
        if not self._open:
            return
        self._until = self._server.now + self._server.limits.lingering
        status, headers, body = refusal(error)
        self.transport.write(self.head(status, headers, b"content-length: %d\r\n" % len(body), False) + body)
        if self.parting or not self.transport.can_write_eof():
            self.transport.close()
            return
        self.transport.write_eof()
        self._resume()

    def _give_up(self) -> None:
        if self._current is not None:
            say_gone(self.release(self._current))

    def _close_if_done(self) -> None:
        if self.parting and self._open and self.idle and self._until is None:
            self.transport.close()


class _Filling(asyncio.BufferedProtocol):
    """Receives the rest of a long body where it belongs."""

    def __init__(self, connection: Connection, reader: RequestReader) -> None:
        self._connection, self._reader = connection, reader
        self.eof_received = connection.eof_received  # type: ignore[method-assign]
        self.connection_lost = connection.connection_lost  # type: ignore[method-assign]
        self.pause_writing = connection.pause_writing  # type: ignore[method-assign]
        self.resume_writing = connection.resume_writing  # type: ignore[method-assign]

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002
        whole = self._reader.whole
        return memoryview(bytearray(WHOLE)) if whole is None else self._reader.room(whole)

    def buffer_updated(self, nbytes: int) -> None:
        if self._reader.whole is not None:  # else it was refused
            self._reader.filled(nbytes)
            if self._reader.whole is None:
                self._connection.switch(self._connection)


class Http1Replier:
    """See `Replier`. It stands for its request, whose body counts in the budget until it is over.

    keep: the connection, afterwards. over: whether the answer has ended, or nobody waits for it.
    """

    over = _begun = _chunked = False
    _silent = True
    """Whether pieces are not sent."""
    _left: int | None = None
    """Bytes that are to come; None: any number."""
    on_resume: Callable[[], None] | None = None

    def __init__(  # noqa: PLR0917  names cost time in each request
        self, connection: Connection, taker: Taker, body: bytes | bytearray, keep: bool, head_only: bool, chunks: bool
    ) -> None:
        self._connection, self.taker, self.body = connection, taker, body
        self.keep, self._head_only, self._chunks = keep, head_only, chunks

    @property
    def paused(self) -> bool:
        return self._connection.blocked

    def answer(
        self,
        status: int,
        headers: Headers,
        body: bytes | bytearray,
        trailers: Headers = (),  # noqa: ARG002
    ) -> None:
        if self._begun:
            self.abort()
        if not self.over:
            self._begin(status, headers, len(body), body)
            self._connection.ended(self)

    def refuse(self, error: HttpError) -> None:
        if error.closes:
            self._connection.part()
        if error.pause and not self.over and not self._begun:
            self._connection.refuse_later(self, error)
        else:
            self.answer(*refusal(error))

    def begin(self, status: int, headers: Headers, length: int | None) -> None:
        if not self.over and not self._begun:
            self._begin(status, headers, length, b"")

    def write(self, piece: bytes) -> None:
        if self.over or self._silent or not piece:
            return
        if self._left is not None:
            self._left -= len(piece)
            if self._left < 0:
                self.abort()
                return
        self._connection.transport.write(b"%x\r\n%b\r\n" % (len(piece), piece) if self._chunked else piece)

    def end(self, trailers: Headers = ()) -> None:  # noqa: ARG002
        if self.over:
            return
        if not self._begun or (self._left and not self._silent):
            self.abort()
            return
        if self._chunked:
            self._connection.transport.write(b"0\r\n\r\n")
        self._connection.ended(self)

    def abort(self) -> None:
        if not self.over:
            self._connection.release(self)
            self._connection.abort()

    def _begin(self, status: int, headers: Headers, length: int | None, first: bytes | bytearray) -> None:
        self._begun, self._left = True, length
        bodiless = status in _BODILESS
        self._silent = bodiless or self._head_only
        framing = b"" if bodiless or length is None else b"content-length: %d\r\n" % length
        if length is None and self._chunks and not bodiless:
            self._chunked, framing = not self._silent, b"transfer-encoding: chunked\r\n"
        connection = self._connection
        if connection.parting or not self.keep:
            self.keep = connection.keeps(self.keep)
        head = connection.head(status, headers, framing, self.keep)
        write_joined(connection.transport, head, b"" if self._silent else first)
