"""HTTP/1.1 for takers: reading goes on while a request waits, so that the end of its client is noticed.

A request behind another one waits, unparsed but for what one piece brings; so does the socket, once these are many.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, cast

import httptools

from hetserve_shell.http.connection import Connection
from hetserve_shell.http.http2 import Http2Connection
from hetserve_shell.http.limits import WHOLE, HttpError, as_http_error, too_large, too_many, write_joined
from hetserve_shell.http.reader import Request, RequestReader
from hetserve_shell.http.streams import TakerStreams
from hetserve_shell.http.takers import Head, Headers, HeadRouter, Refusal, Taker, refusal, say_gone

if TYPE_CHECKING:
    from hetserve_shell.http.server import HttpServer

PREFACE: Final = b"PRI"
"""What a client of HTTP/2 sends first, and none of HTTP/1.1."""
PIECE: Final = 4096
"""Bytes given to the parser at once."""
_STATUS_LINES: Final = {status.value: b"HTTP/1.1 %d %b\r\n" % (status, status.phrase.encode()) for status in HTTPStatus}
_BODILESS: Final = (HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED)


def http2(server: HttpServer) -> Http2Connection:
    """The same for a client of HTTP/2."""
    return Http2Connection(server) if isinstance(server.routes, Mapping) else TakerStreams(server)


def http1(server: HttpServer) -> Connection:
    """The protocol of a socket, by the routes of its server."""
    return Connection(server) if isinstance(server.routes, Mapping) else TakerConnection(server)


class TakerReader(RequestReader):
    """Reads requests whose `handler` is the Taker that their head has chosen.

    A request whose head is that of the one before, byte for byte, is not parsed again: clients send the same ones.
    whole: the long body that is received, if there is one.
    """

    _at_once = PIECE
    whole: bytearray | None = None
    _filled = 0
    _first: Head | None = None
    """The first head of the data that is read."""
    _known: Head | None = None
    """A head that `_text` is parsed to; with its body it takes `_total` bytes."""
    _text, _total = b"", 0

    def feed_piece(self, data: bytes, at: int) -> int:
        """Reads some of the data from `at` on; returns where it stopped."""
        if self.whole is None:
            begins = at == 0 and not self.receiving
            if begins and len(data) == self._total and data.startswith(self._text) and self._knows(data):
                return self._total
            self._first = None
            self._feed(data[at : at + PIECE])
            if begins:
                self._remember(data)
            return at + PIECE
        room = self.room(self.whole)
        part = memoryview(data)[at : at + len(room)]
        room[: len(part)] = part
        self.filled(len(part))
        return at + len(part)

    def room(self, whole: bytearray) -> memoryview:
        """Where the rest of a long body belongs."""
        return memoryview(whole)[self._filled :]

    def filled(self, count: int) -> None:
        """So many bytes of a long body have come."""
        self._filled += count
        whole = self.whole
        if whole is not None and self._filled == len(whole):
            self.whole = None
            self._finish(whole)
            self._parser = httptools.HttpRequestParser(self)

    def drop(self) -> None:
        super().drop()
        self.whole = self._known = None
        self._total = 0
        taker, self._handler = self._handler, None
        if taker is not None:
            say_gone(taker)

    # Called by the parser

    def on_body(self, part: bytes) -> None:
        if self.whole is None:
            super().on_body(part)
        else:
            self._unseen = 0
            self.whole[self._filled : self._filled + len(part)] = part
            self._filled += len(part)

    # Inside

    def _route(self) -> Taker:
        announced = self._announced()
        length = None if b"transfer-encoding" in self._firsts else announced or 0
        expecting = self._expecting()
        path, _, query = self._url.partition(b"?")
        head = Head(self._parser.get_method(), path, query, self._headers, length, _firsts=self._firsts)
        taker = self._chosen(head, expecting)
        if self._first is None and not expecting:
            self._first = head
        if length is not None and length > WHOLE:
            self._size = length
            self._budget.used += length
            if self._budget.used > self._budget.limit:
                raise too_many()
            self.whole, self._filled = bytearray(length), 0
        if expecting:
            self._proceed()
        return taker

    def _chosen(self, head: Head, expecting: bool) -> Taker:
        """Who takes a request. Raises HttpError."""
        self._head_only = head.method == b"HEAD"
        self._handler = taker = self._asked(head, expecting)
        self._limit = taker.limit
        if head.length is not None and head.length > self._limit:
            raise too_large(self._limit)
        return taker

    def _remember(self, data: bytes) -> None:
        """Notes the head that data began with, if it is whole and says how long the body is."""
        head, self._known, self._total = self._first, None, 0
        if head is None or self.dead or head.length is None or head.length > WHOLE:
            return
        end = data.find(b"\r\n\r\n", 0, PIECE) + 4
        if end >= 4 and data.startswith(head.method):  # blank lines may come before
            self._known, self._text, self._total = head, data[:end], end + head.length

    def _knows(self, data: bytes) -> bool:
        """Takes a request whose head is known; False: there is no room for it, or no head is known."""
        head, body = self._known, data[len(self._text) :]
        if head is None or self.dead or self._budget.used + len(body) > self._budget.limit:
            return False
        self.since = self._server.now
        try:
            taker = self._chosen(head, expecting=False)
        except HttpError as error:
            self._stop(error)
            return True
        self._budget.used += len(body)
        self._handler = None
        self._take(Request(taker, body, keep=True, head_only=self._head_only, chunks=True))
        return True

    def _asked(self, head: Head, expecting: bool) -> Taker:
        router: HeadRouter = self._server.routes
        try:
            return router.asked(head)
        except Exception as error:
            refusal = as_http_error(error)
            if expecting or head.length is None or head.length > WHOLE:
                raise refusal from None
            return Refusal(refusal)


class TakerConnection(Connection):
    _reads = TakerReader
    _error_key = "error"
    _reader: TakerReader
    _current: Http1Replier | None

    def __init__(self, server: HttpServer) -> None:
        super().__init__(server)
        self._is_new, self._begun = True, b""
        """Whether it is not known yet which version of HTTP the client speaks, and what has come of that."""
        self._rest = b""
        """What has come behind a request that waits; while it is much, reading is paused."""

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
        streams = http2(self._server)
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

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._give_up()

    def resume_writing(self) -> None:
        reply = self._current
        super().resume_writing()
        if reply is not None and reply.on_resume is not None:
            reply.on_resume()

    # Called by the replier

    @property
    def blocked(self) -> bool:
        return self._blocked

    def head(self, request: Request, status: int, headers: Headers, framing: bytes) -> bytes:
        """The head of an answer. framing: the header that says how its body ends."""
        self._served = True
        request.keep = self._keeps(request.keep)
        if not request.keep:
            self._read_no_more()
            framing += b"connection: close\r\n"
        parts = [_STATUS_LINES.get(status) or b"HTTP/1.1 %d \r\n" % status]
        for name, value in headers:
            parts += name, b": ", value, b"\r\n"
        parts += framing, b"date: ", self._server.date, b"\r\n\r\n"
        return b"".join(parts)

    def ended(self, reply: Http1Replier) -> None:
        """An answer has ended."""
        self.release(reply)
        self.idle_since = self._server.now
        if not reply.request.keep:
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
        request, self._current = reply.request, None
        self._server.budget.used -= len(request.body)
        reply.over, reply.on_resume = True, None
        taker, request.handler, request.body = request.handler, None, b""
        return cast("Taker", taker)

    # Inside

    @property
    def _busy(self) -> bool:
        return self._current is not None or self._blocked or bool(self._queue) or bool(self._rest)

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
        else:
            self._pause()

    def _pause(self) -> None:
        if len(self._rest) > WHOLE:
            super()._pause()

    def _take_rest(self) -> bytes:
        rest, self._rest = self._rest, b""
        self._server.budget.used -= len(rest)
        return rest

    def _serve(self, request: Request) -> None:
        self._current = reply = Http1Replier(self, request)
        try:
            request.handler.take(request.body, reply)
        except Exception as error:
            reply.refuse(as_http_error(error))

    def _serve_queue(self) -> None:
        if self._queue or not self._rest or self._current is not None or self._blocked or not self._open:
            super()._serve_queue()
            return
        self._had_turn = False
        self._parse(self._take_rest())
        if self._queue:
            self._await_turn()
        if self._paused and not self._rest:
            self._paused = False
            self.transport.resume_reading()
        self._close_if_done()

    def _keeps(self, keep: bool) -> bool:
        return keep and (not self.parting or bool(self._rest) or super()._keeps(keep))

    def _read_no_more(self) -> None:
        dropped = [item.handler for item in self._queue if isinstance(item, Request)]
        super()._read_no_more()
        self._take_rest()
        for taker in dropped:
            say_gone(taker)

    def _give_up(self) -> None:
        if self._current is not None:
            say_gone(self.release(self._current))


class _Filling(asyncio.BufferedProtocol):
    """Receives the rest of a long body where it belongs."""

    def __init__(self, connection: TakerConnection, reader: TakerReader) -> None:
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
    """See `Replier`. over: whether the answer has ended, or nobody waits for it."""

    __slots__ = ("_begun", "_chunked", "_connection", "_left", "_silent", "on_resume", "over", "request")

    def __init__(self, connection: TakerConnection, request: Request) -> None:
        self._connection = connection
        self.request = request
        self.over = self._begun = self._chunked = False
        self._silent = True
        """Whether pieces are not sent."""
        self._left: int | None = None
        """Bytes that are to come; None: any number."""
        self.on_resume: Callable[[], None] | None = None

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
        request, self._begun, self._left = self.request, True, length
        bodiless = status in _BODILESS
        self._silent = bodiless or request.head_only
        framing = b"" if bodiless or length is None else b"content-length: %d\r\n" % length
        if length is None and request.chunks and not bodiless:
            self._chunked, framing = not self._silent, b"transfer-encoding: chunked\r\n"
        head = self._connection.head(request, status, headers, framing)
        write_joined(self._connection.transport, head, b"" if self._silent else first)
