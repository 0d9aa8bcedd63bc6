"""One stream of HTTP/2: a request and its answer."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from hetserve_shell.http import grpc
from hetserve_shell.http.frames import ErrorCode
from hetserve_shell.http.framing import HeadFields
from hetserve_shell.http.limits import HttpError, too_large
from hetserve_shell.http.takers import Head, Headers, Taker, refusal

if TYPE_CHECKING:
    from hetserve_shell.http.http2 import Http2Connection

BURST: Final = 65536
"""Bytes of answers before the socket is given them, and may say that the client does not read."""
_VISIBLE: Final = re.compile(rb"[!-~]*")
_DIGITS: Final = 19
"""Of a length at most."""


@dataclass(slots=True, eq=False)
class Exchange:
    """A request that came whole or in part, and its answer until all of it is sent.

    since: when it began, came whole, or its answer went on last [s]. limit: bytes of its body at most. size: of these
    so much has come; untold: of this its client does not know yet. received: whether its end has come. taker: until its
    answer has ended. reply: once the body is whole. answer: what there is of it; None: nothing yet. whole: whether no
    more of it comes but trailers. sent: bytes of it; noted: of these, when it went on last. more_room: bytes that its
    client takes beyond those of a new stream. pausing: says a refusal after its pause.
    """

    stream: int
    head: Head
    since: float
    limit: int
    parts: list[bytes] = field(default_factory=list)
    size: int = 0
    untold: int = 0
    received: bool = False
    taker: Taker | None = None
    reply: StreamReplier | None = None
    answer: bytes | None = None
    whole: bool = True
    trailers: Headers = ()
    sent: int = 0
    noted: int = 0
    more_room: int = 0
    pausing: asyncio.TimerHandle | None = None

    def check_head(self) -> None:
        """Raises HttpError."""
        head, length = self.head, self.head.get(b"content-length")
        if not (_VISIBLE.fullmatch(head.path) and _VISIBLE.fullmatch(head.query)):
            raise HttpError(HTTPStatus.BAD_REQUEST, "the path: must have neither blanks nor what is not ASCII")
        if length and not length.isdigit():
            raise HttpError(HTTPStatus.BAD_REQUEST, f"content-length {length[:40]!r}: must be a number of bytes")
        if len(length) > _DIGITS:
            raise too_large(self.limit)
        if not head.is_grpc:
            head.length = int(length) if length else 0 if self.received else None
        elif (coding := head.get(b"grpc-encoding")) not in {b"", b"identity"}:
            raise grpc.compressed(f"grpc-encoding {coding[:40].decode('latin-1')}: the message")

    def check_whole(self) -> None:
        """Whether a body that has come to its end is all of it. Raises HttpError."""
        if self.taker is None or self.head.length not in {None, self.size}:
            what = "a message of gRPC behind its prefix" if self.head.is_grpc else "as many as content-length says"
            raise HttpError(HTTPStatus.BAD_REQUEST, f"{self.size} bytes: must be {what}, and all of it")

    def take_body(self) -> bytes:
        """What has come; nothing of it is kept."""
        parts, self.parts = self.parts, []
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def add_to_answer(self, piece: bytes) -> bool:
        """Forgets what is sent of the answer; whether all was."""
        left = (self.answer or b"")[self.sent :]
        self.noted -= self.sent
        self.answer, self.sent = left + piece, 0
        return not left

    def ends_with(self, sent: int) -> bool:
        """Whether nothing is to come behind so many bytes of the answer."""
        return self.whole and not self.trailers and sent == len(self.answer or b"")


class StreamReplier:
    """See `Replier`."""

    __slots__ = ("_connection", "_exchange", "on_resume")

    def __init__(self, connection: Http2Connection, exchange: Exchange) -> None:
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

    def say(self, error: HttpError) -> None:
        """Says what is wrong, after its pause, whoever has taken the request."""
        exchange = self._exchange
        if not error.pause:
            self._say_now(error)
        elif self._connection.awaits(exchange):
            exchange.answer, exchange.whole = b"", False  # what comes of the request meanwhile is not kept
            exchange.pausing = asyncio.get_running_loop().call_later(error.pause, self._say_now, error)

    def _say_now(self, error: HttpError) -> None:
        self._exchange.answer, self._exchange.whole, self._exchange.pausing = None, True, None
        self._answer(*(grpc.refusal if self._exchange.head.is_grpc else refusal)(error))
        if error.closes:
            self._connection.finish()

    def begin(self, status: int, headers: Headers, length: int | None) -> None:
        exchange = self._exchange
        if exchange.taker is not None and exchange.answer is None:
            exchange.whole = False
            sized = () if length is None else ((b"content-length", b"%d" % length),)
            self._connection.say(exchange, status, [*headers, *sized], b"")

    def write(self, piece: bytes) -> None:
        exchange = self._exchange
        if exchange.taker is not None and exchange.answer is not None and exchange.head.method != b"HEAD":
            self._connection.add(exchange, piece)

    def end(self, trailers: Headers = ()) -> None:
        if self._exchange.answer is None:
            self.abort()
        elif self._exchange.taker is not None:
            self._connection.release(self._exchange)
            self._connection.end(self._exchange, trailers)

    def abort(self) -> None:
        if self._exchange.taker is not None:
            self._connection.release(self._exchange)
            self._connection.reset(self._exchange, ErrorCode.INTERNAL_ERROR)

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


def request_of(fields: HeadFields) -> Head:
    """What a head asks for; its length is not known yet."""
    path, _, query = fields.pseudo.get(b":path", b"").partition(b"?")  # CONNECT names none
    is_grpc = fields.firsts.get(b"content-type", b"").startswith(b"application/grpc")
    return Head(fields.pseudo[b":method"], path, query, fields.headers, None, is_grpc, fields.firsts)
