"""Parses the requests of a connection, within limits.

llhttp (httptools) parses strictly. This module bounds heads, bodies, chunk extensions and trailers, and refuses a
request with two lengths (request smuggling, RFC 9112, section 11.2). A long body is received where it belongs.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, Protocol

import httptools

from hetserve_shell.http.limits import (
    WHOLE,
    HttpError,
    ServerLimits,
    as_http_error,
    expects_continue,
    too_large,
    too_many,
    values_of,
)
from hetserve_shell.http.takers import Head, Refusal, Taker, say_gone

if TYPE_CHECKING:
    from hetserve_shell.http.server import HttpServer

log = logging.getLogger(__name__)

PIECE: Final = 4096
"""Bytes given to the parser at once where they may be of several requests."""
SLICE: Final = 64 * 1024
"""Bytes given to it else: an unfinished header grows unseen by at most this."""


class Take(Protocol):
    """Called for each whole request, whose body counts in the budget."""

    def __call__(self, taker: Taker, body: bytes | bytearray, keep: bool, head_only: bool, chunks: bool, /) -> None:
        """keep: the connection, afterwards. head_only: answer without a body. chunks: whether the client knows them."""


class RequestReader:
    """Calls `take` for every request, and `refuse` once for the first that is not served; then it is dead.

    A request whose head is that of the one before, byte for byte, is not parsed again: clients send the same ones.
    since: when the current request began [s, of the server's coarse clock]. in_head: whether its head is not whole.
    whole: the long body that is received, if there is one.
    """

    def __init__(
        self, server: HttpServer, *, take: Take, refuse: Callable[[HttpError], None], proceed: Callable[[], None]
    ) -> None:
        self.dead = False
        self.receiving = False
        self.in_head = False
        self.since = 0.0
        self.whole: bytearray | None = None
        self._server, self._limits, self._budget = server, server.limits, server.budget
        self._take, self._refuse, self._proceed = take, refuse, proceed
        self._parser = httptools.HttpRequestParser(self)
        self._unseen = 0
        self._limit = 0
        self._head_only = False
        self._url = b""
        self._headers: list[tuple[bytes, bytes]] = []
        self._firsts: dict[bytes, bytes] = {}
        """The first value of each header."""
        self._taker: Taker | None = None
        self._head = Head(b"", b"", b"", (), None)
        self._first: Head | None = None
        """The first head of the data that is read."""
        self._known: Head | None = None
        """A head that `_text` is parsed to; with its body it takes `_total` bytes."""
        self._text, self._total = b"", 0
        self._parts: list[bytes] = []
        self._size = self._length = self._filled = self._here = 0
        """Bytes of a body that count, that are known to come, of a long one that have come; and those not read yet."""

    def feed_piece(self, data: bytes, at: int) -> int:
        """Reads some of the data from `at` on, of no request behind the current body; returns where it stopped."""
        if self.whole is None:
            begins = at == 0 and not self.receiving
            if begins and len(data) == self._total and data.startswith(self._text) and self._knows(data):
                return self._total
            self._first = None
            size = max(PIECE, self._length - self._size)
            self._here = len(data) - at
            if self._here > size and data.find(b"\r", data.find(b"\r\n\r\n", at) + 4, at + SLICE) < 0:
                size = SLICE  # there is no second head
            self._feed(data[at : at + size])
            if begins:
                self._remember(data)
            return at + size
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

    def drop(self, error: HttpError | None = None) -> None:
        """Stops reading and releases an unfinished request. error: that it is refused with."""
        self.dead = True
        self.receiving = False
        self.whole = self._known = None
        self._total = 0
        self._headers = []
        self._parts.clear()
        self._budget.used -= self._size
        self._size = self._length = 0
        taker, self._taker = self._taker, None
        if taker is not None:
            self._head.refused = 0 if error is None else error.status
            say_gone(taker)

    # Called by the parser

    def on_message_begin(self) -> None:
        if self.dead:
            return
        self.receiving = self.in_head = True
        self.since = self._server.now
        self._unseen = 0
        self._url = b""
        self._headers = []

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        if self.in_head:  # else a trailer
            self._headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        self.in_head = False
        if self.dead:
            return
        try:
            self._route()
        except HttpError as error:
            self._stop(error)
        self._unseen = 0

    def on_body(self, part: bytes) -> None:
        if self.dead:
            return
        self._unseen = 0
        if self.whole is not None:
            self.whole[self._filled : self._filled + len(part)] = part
            self._filled += len(part)
            return
        self._parts.append(part)
        self._size += len(part)
        self._budget.used += len(part)
        if self._size > self._limit:
            self._stop(too_large(self._limit))
        elif self._budget.used > self._budget.limit:
            self._stop(too_many())

    def on_message_complete(self) -> None:
        if not self.dead:
            self._finish(self._parts[0] if len(self._parts) == 1 else b"".join(self._parts))

    # Inside

    def _finish(self, body: bytes | bytearray) -> None:
        taker, self._taker = self._taker, None
        if taker is None:
            return
        keep = self._parser.should_keep_alive()
        modern = (keep and b"connection" not in self._firsts) or self._parser.get_http_version() == "1.1"
        keep = keep and modern
        self._parts.clear()
        self._size = self._length = 0
        self.receiving = False
        self.dead = not keep
        self._take(taker, body, keep, self._head_only, modern)

    def _feed(self, data: bytes) -> None:
        if self.dead:
            return
        was_receiving = self.receiving
        if was_receiving:
            self._unseen += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            pass  # refused with its head
        except httptools.HttpParserError as error:
            cause = error.__context__
            if isinstance(error, httptools.HttpParserCallbackError) and cause is not None:
                log.exception("reading a request failed", exc_info=cause)
            self._stop(_bad(f"the request is not HTTP/1.1: {error}"))
        # Bytes outside a body belong to a head, chunk extension or trailer.
        if was_receiving and self.receiving and self._unseen > self._limits.head:
            self._stop(_head_too_large(self._limits))

    def _stop(self, error: HttpError) -> None:
        if not self.dead:
            self.drop(error)
            self._refuse(error)

    def _route(self) -> None:
        """Finds who takes the request of a complete head. Raises HttpError."""
        length = self._announced()
        expecting = b"expect" in self._firsts and expects_continue(values_of(self._headers, b"expect"))
        path, _, query = self._url.partition(b"?")
        head = Head(self._parser.get_method(), path, query, self._headers, length, False, self._firsts)
        self._choose(head, expecting)
        if self._first is None:
            self._first = head
        if length:
            self._length = length
            if length > WHOLE or length > self._limit:
                self._receive(length)
        if expecting:
            self._proceed()

    def _choose(self, head: Head, expecting: bool) -> Taker:
        """Finds who takes a request. Raises HttpError."""
        self._head, self._head_only = head, head.method == b"HEAD"
        head.refused = 0  # of one that came with it before
        try:
            taker = self._server.router.asked(head)
        except Exception as error:
            taker = _refusing(error, head, expecting)
        self._taker, self._limit = taker, min(taker.limit, self._limits.body)
        return taker

    def _remember(self, data: bytes) -> None:
        """Notes the head that data began with, if it is whole and says how long the body is."""
        head, self._known, self._total = self._first, None, 0
        if head is None or self.dead or head.length is None or head.length > WHOLE or head.get(b"expect"):
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
            taker = self._choose(head, expecting=False)
            if len(body) > self._limit:
                raise too_large(self._limit)
        except HttpError as error:
            self._stop(error)
            return True
        self._budget.used += len(body)
        self._taker = None
        self._take(taker, body, True, self._head_only, True)
        return True

    def _receive(self, length: int) -> None:
        """Makes room for a long body, unless all of it has come. Raises HttpError."""
        if length > self._limit:
            raise too_large(self._limit)
        if length <= self._here:
            return
        self._size = length
        self._budget.used += length
        if self._budget.used > self._budget.limit:
            raise too_many()
        self.whole, self._filled = bytearray(length), 0

    def _announced(self) -> int | None:
        """Bytes of the body that a head announces; None: in chunks. Raises HttpError."""
        headers = self._headers
        if (self._unseen or self._limits.head < SLICE) and self._size_of_head() > self._limits.head:
            raise _head_too_large(self._limits)
        if self._parser.should_upgrade():
            raise _bad("this server speaks HTTP/1.1 alone and offers no upgrade")
        self._firsts = firsts = dict(reversed(headers))
        if len(firsts) < len(headers) or b"host" not in firsts or b"transfer-encoding" in firsts:
            self._check_framing([name for name, _ in headers])
        if b"transfer-encoding" in firsts:
            return None
        return int(firsts[b"content-length"]) if b"content-length" in firsts else 0

    def _check_framing(self, names: list[bytes]) -> None:
        """Refuses a head whose host or length is missing, given twice or not understood. Raises HttpError."""
        if names.count(b"host") != 1 and self._parser.get_http_version() == "1.1":
            raise _bad("exactly one Host header must be given")
        if names.count(b"content-length") + names.count(b"transfer-encoding") > 1:
            raise _bad("the length of the request is given more than once")
        if self._firsts.get(b"transfer-encoding", b"chunked").lower() != b"chunked":
            raise HttpError(HTTPStatus.NOT_IMPLEMENTED, "the only transfer encoding served is chunked")

    def _size_of_head(self) -> int:
        return sum(len(name) + len(value) + 4 for name, value in self._headers) + len(self._url)


def _refusing(error: Exception, head: Head, expecting: bool) -> Taker:
    """Who says that a request is not taken, where its body is so short that it is read. Raises HttpError."""
    refusal = as_http_error(error)
    if expecting or head.length is None or head.length > WHOLE:
        raise refusal from None
    return Refusal(refusal)


def _bad(text: str) -> HttpError:
    return HttpError(HTTPStatus.BAD_REQUEST, text)


def _head_too_large(limits: ServerLimits) -> HttpError:
    text = f"request line and headers, or what surrounds a chunk, are larger than {limits.head} bytes"
    return HttpError(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, text)
