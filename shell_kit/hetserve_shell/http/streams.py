"""HTTP/2 for takers: requests beside each other, gRPC among them.

Of gRPC, the router of heads is asked once a message's prefix has come, so that it knows the length of the body.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, cast

from h2 import events
from h2.errors import ErrorCodes

from hetserve_shell.http import grpc
from hetserve_shell.http.http2 import BURST, Http2Connection
from hetserve_shell.http.limits import Exchange, HttpError, as_http_error, expects_continue, too_large, values_of
from hetserve_shell.http.takers import Head, Headers, HeadRouter, Taker, refusal, say_gone

if TYPE_CHECKING:
    from hetserve_shell.http.server import HttpServer

_VISIBLE: Final = re.compile(rb"[!-~]*")
_LENGTH: Final = 19
"""Digits of a length at most."""


@dataclass(slots=True, eq=False)
class TakerExchange(Exchange):
    """taker: until its answer has ended. reply: once the body is whole. pausing: says a refusal after its pause."""

    head: Head = Head(b"", b"", b"", (), None)
    taker: Taker | None = None
    reply: StreamReplier | None = None
    pausing: asyncio.TimerHandle | None = None


class TakerStreams(Http2Connection):
    def __init__(self, server: HttpServer) -> None:
        super().__init__(server)
        self._router: HeadRouter = server.router
        self._settling: asyncio.Handle | None = None
        """The turn in which all is sent that was said in one before: each write costs as much as an answer."""

    # Called by the transport

    def eof_received(self) -> bool:
        """A client that ends its side waits for nothing more."""
        self._forget_all()
        return False

    # Called by others' answers

    def give_up(self, exchange: Exchange) -> None:
        """Its taker hears of it in the next turn: in this one another may be within an answer of its own."""
        taker = self.release(cast("TakerExchange", exchange))
        super().give_up(exchange)
        if taker is not None:
            asyncio.get_running_loop().call_soon(say_gone, taker)

    # Called by the replier

    @property
    def blocked(self) -> bool:
        return self._blocked

    @property
    def date(self) -> bytes:
        return self._server.date

    def say(self, exchange: TakerExchange, status: int, headers: Headers, body: bytes) -> None:
        """Begins an answer, or says all of it where it is whole."""
        self._served, self.idle_since = True, self._server.now
        self._say(exchange, [(b":status", b"%d" % status), *headers], body)

    def add(self, exchange: TakerExchange, piece: bytes) -> None:
        """Goes on with an answer."""
        left = (exchange.answer or b"")[exchange.sent :]
        exchange.noted -= exchange.sent
        exchange.answer, exchange.sent = left + piece, 0
        if not left:
            exchange.since = self._server.now
        self._send(exchange)
        if exchange.stream in self._exchanges:
            self._server.unsent.keep(exchange, self.give_up)

    def end(self, exchange: TakerExchange, trailers: Headers) -> None:
        exchange.whole, exchange.trailers = True, trailers
        if not trailers and exchange.sent == len(exchange.answer or b""):
            self._h2.send_data(exchange.stream, b"", end_stream=True)
        self._send(exchange)

    def release(self, exchange: TakerExchange) -> Taker | None:
        """Nothing more is said to a request; returns who took it."""
        taker, exchange.taker = exchange.taker, None
        if exchange.reply is not None:
            exchange.reply.on_resume = None
        self._release(exchange)
        return taker

    def refuse_later(self, exchange: TakerExchange, error: HttpError) -> None:
        """Says it after its pause, if its client still waits; what comes of the request meanwhile is not kept."""
        if exchange.stream not in self._exchanges:
            return
        exchange.answer, exchange.whole = b"", False
        exchange.pausing = asyncio.get_running_loop().call_later(error.pause, self._refuse_now, exchange, error)

    def reset(self, exchange: TakerExchange) -> None:
        self._give_up(exchange, ErrorCodes.INTERNAL_ERROR)

    def settle(self) -> None:
        """Sends what has been said, in the next turn."""
        if self._settling is None:
            self._settling = asyncio.get_running_loop().call_soon(self._settle)

    # Inside

    def _end_turn(self) -> None:
        self.settle()

    def _settle(self) -> None:
        self._settling = None
        super()._end_turn()

    def _made(self, event: events.RequestReceived) -> Exchange:
        made = TakerExchange(event.stream_id, self._server.now, self._server.limits.body)
        pseudo = dict(event.headers)
        path, _, query = pseudo.get(b":path", b"").partition(b"?")
        headers = [header for header in event.headers if header[0][:1] != b":"]
        if b":authority" in pseudo:
            headers.insert(0, (b"host", pseudo[b":authority"]))
        made.head = head = Head(pseudo[b":method"], path, query, headers, 0 if event.stream_ended else None)
        head.is_grpc = head.get(b"content-type").startswith(b"application/grpc")
        made.head_only = head.method == b"HEAD"
        return made

    def _route(self, exchange: Exchange) -> None:
        made = cast("TakerExchange", exchange)
        head, length = made.head, made.head.get(b"content-length")
        if not (_VISIBLE.fullmatch(head.path) and _VISIBLE.fullmatch(head.query)):
            raise HttpError(HTTPStatus.BAD_REQUEST, "the path: must have neither blanks nor what is not ASCII")
        if length.isdigit() and len(length) < _LENGTH:
            head.length = int(length)
        if not head.is_grpc:
            self._ask(made)
        elif (coding := head.get(b"grpc-encoding")) not in {b"", b"identity"}:
            raise grpc.compressed(f"grpc-encoding {coding[:40].decode('latin-1')}: the message")

    def _ask(self, exchange: TakerExchange) -> None:
        """Finds who takes a request. Raises HttpError."""
        head = exchange.head
        try:
            exchange.taker = taker = self._router.asked(head)
        except Exception as error:
            raise as_http_error(error) from None
        limit = min(taker.limit, self._server.limits.body)
        exchange.limit = limit + (grpc.PREFIX if head.is_grpc else 0)
        if head.length is not None and head.length > exchange.limit:
            raise too_large(limit)
        if head.is_grpc:
            exchange.limit = head.length or 0
        if head.get(b"expect") and expects_continue(values_of(head.headers, b"expect")):
            self._h2.send_headers(exchange.stream, [(b":status", b"100")])

    def _grew(self, exchange: Exchange) -> None:
        made = cast("TakerExchange", exchange)
        if made.taker is not None or made.size < grpc.PREFIX:
            return
        try:
            made.head.length = grpc.whole_length(b"".join(made.parts)[: grpc.PREFIX])
            self._ask(made)
            if made.size > made.limit:
                raise too_large(made.limit)
        except HttpError as error:
            self._refuse(made, error)

    def _enqueue(self, exchange: Exchange) -> None:
        made = cast("TakerExchange", exchange)
        if made.head.is_grpc and (made.taker is None or made.size != made.head.length):
            said = f"{made.size} bytes: must be a message of gRPC behind its prefix, and all of it"
            self._refuse(made, HttpError(HTTPStatus.BAD_REQUEST, said))
        else:
            super()._enqueue(made)

    def _takes(self, exchange: Exchange) -> float:
        asked = cast("TakerExchange", exchange).taker is not None
        return self._server.limits.waiting + (self._server.limits.uploading if asked else 0.0)

    def _serve(self, exchange: Exchange) -> None:
        made = cast("TakerExchange", exchange)
        body = made.parts[0] if len(made.parts) == 1 else b"".join(made.parts)
        made.parts.clear()
        made.reply = reply = StreamReplier(self, made)
        if made.taker is None:
            return
        try:
            made.taker.take(body, reply)
        except Exception as error:
            reply.refuse(as_http_error(error))

    def _refuse(self, exchange: Exchange, error: HttpError) -> None:
        """Before it was taken."""
        made = cast("TakerExchange", exchange)
        taker, made.head.refused = self.release(made), error.status
        StreamReplier(self, made).say(error)
        if taker is not None:
            say_gone(taker)

    def _refuse_now(self, exchange: TakerExchange, error: HttpError) -> None:
        exchange.answer, exchange.whole, exchange.pausing = None, True, None
        StreamReplier(self, exchange).say(error, paused=True)

    def _send(self, exchange: Exchange) -> None:
        super()._send(exchange)
        reply = cast("TakerExchange", exchange).reply
        if reply is not None and reply.on_resume is not None and not reply.paused:
            reply.on_resume()

    def _forget(self, exchange: Exchange) -> None:
        super()._forget(exchange)
        made = cast("TakerExchange", exchange)
        if made.pausing is not None:
            made.pausing.cancel()
        taker = self.release(made)
        if taker is not None:
            say_gone(taker)


class StreamReplier:
    """See `Replier`."""

    __slots__ = ("_connection", "_exchange", "on_resume")

    def __init__(self, connection: TakerStreams, exchange: TakerExchange) -> None:
        self._connection, self._exchange = connection, exchange
        self.on_resume: Callable[[], None] | None = None

    @property
    def paused(self) -> bool:
        exchange = self._exchange
        return self._connection.blocked or len(exchange.answer or b"") - exchange.sent > BURST

    def answer(self, status: int, headers: Headers, body: bytes | bytearray, trailers: Headers = ()) -> None:
        if self._is_first():
            self._answer(status, headers, body, trailers)

    def refuse(self, error: HttpError) -> None:
        if self._is_first():
            self.say(error)

    def say(self, error: HttpError, *, paused: bool = False) -> None:
        """Says what is wrong, whoever has taken the request. paused: whether its pause is over."""
        if error.pause and not paused:
            self._connection.refuse_later(self._exchange, error)
            return
        self._answer(*(grpc.refusal if self._exchange.head.is_grpc else refusal)(error))
        if error.closes:
            self._connection.finish()

    def begin(self, status: int, headers: Headers, length: int | None) -> None:
        exchange = self._exchange
        if exchange.taker is not None and exchange.answer is None:
            exchange.whole = False
            sized = () if length is None else ((b"content-length", b"%d" % length),)
            self._connection.say(exchange, status, [*headers, *sized], b"")
            self._connection.settle()

    def write(self, piece: bytes) -> None:
        if self._exchange.taker is not None and self._exchange.answer is not None and not self._exchange.head_only:
            self._connection.add(self._exchange, piece)
            self._connection.settle()

    def end(self, trailers: Headers = ()) -> None:
        if self._exchange.answer is None:
            self.abort()
        elif self._exchange.taker is not None:
            self._connection.release(self._exchange)
            self._connection.end(self._exchange, trailers)
            self._connection.settle()

    def abort(self) -> None:
        if self._exchange.taker is not None:
            self._connection.release(self._exchange)
            self._connection.reset(self._exchange)
            self._connection.settle()

    def _is_first(self) -> bool:
        """Whether a whole answer may be said; one that has begun is aborted."""
        if self._exchange.answer is not None:
            self.abort()
            return False
        return self._connection.release(self._exchange) is not None

    def _answer(self, status: int, headers: Headers, body: bytes | bytearray, trailers: Headers = ()) -> None:
        exchange = self._exchange
        exchange.trailers = trailers
        if not exchange.head.is_grpc:
            headers = [*headers, (b"content-length", b"%d" % len(body)), (b"date", self._connection.date)]
        self._connection.say(exchange, status, headers, bytes(body))
        self._connection.settle()
