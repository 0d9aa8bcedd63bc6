"""Parses the requests of a connection, within limits.

llhttp (httptools) parses strictly. This module bounds heads, bodies, chunk extensions and trailers, and refuses a
request with no length or two (request smuggling, RFC 9112, section 11.2).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

import httptools

from hetserve_shell.http.limits import (
    HttpError,
    ServerLimits,
    expects_continue,
    find_route,
    handler_of,
    too_large,
    too_many,
)

if TYPE_CHECKING:
    from hetserve_shell.http.server import HttpServer

log = logging.getLogger(__name__)

SLICE: Final = 64 * 1024
"""Bytes given to the parser at once: an unfinished header grows unseen by at most this."""


@dataclass(slots=True, eq=False)
class Request:
    """A whole request; its body counts in the budget until served.

    handler: a Handler, or the Taker of a connection that has these. keep: the connection, afterwards. head_only: answer
    without a body. chunks: whether the client knows them.
    """

    handler: Any
    body: bytes | bytearray
    keep: bool
    head_only: bool
    chunks: bool


class RequestReader:
    """Calls `take` for every request, and `refuse` once for the first that is not served; then it is dead.

    since: when the current request began [s, of the server's coarse clock]. in_head: whether its head is not whole.
    """

    _at_once = SLICE

    def __init__(
        self,
        server: HttpServer,
        *,
        take: Callable[[Request], None],
        refuse: Callable[[HttpError], None],
        proceed: Callable[[], None],
    ) -> None:
        self.dead = False
        self.receiving = False
        self.in_head = False
        self.since = 0.0
        self._server, self._limits, self._budget = server, server.limits, server.budget
        self._take, self._refuse, self._proceed = take, refuse, proceed
        self._parser = httptools.HttpRequestParser(self)
        self._unseen = 0
        self._limit = server.limits.body
        self._head_only = False
        self._url = b""
        self._headers: list[tuple[bytes, bytes]] = []
        self._firsts: dict[bytes, bytes] = {}
        """The first value of each header."""
        self._handler: Any = None
        self._parts: list[bytes] = []
        self._size = 0

    def feed(self, data: bytes) -> None:
        for start in range(0, len(data), SLICE):
            self._feed(data[start : start + SLICE])

    def drop(self, error: HttpError | None = None) -> None:  # noqa: ARG002
        """Stops reading and releases an unfinished request. error: that it is refused with."""
        self.dead = True
        self.receiving = False
        self._headers = []
        self._parts.clear()
        self._budget.used -= self._size
        self._size = 0

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
            self._handler = self._route()
        except HttpError as error:
            self._stop(error)
        self._unseen = 0

    def on_body(self, part: bytes) -> None:
        if self.dead:
            return
        self._unseen = 0
        self._parts.append(part)
        self._size += len(part)
        self._budget.used += len(part)
        if self._size > self._limit:
            self._stop(too_large(self._limit))
        elif self._budget.used > self._budget.limit:
            self._stop(too_many())

    def on_message_complete(self) -> None:
        if self.dead or self._handler is None:
            return
        parts = self._parts
        self._finish(parts[0] if len(parts) == 1 else b"".join(parts))

    # Inside

    def _finish(self, body: bytes | bytearray) -> None:
        modern = self._parser.get_http_version() == "1.1"
        keep = modern and self._parser.should_keep_alive()
        request = Request(self._handler, body, keep, self._head_only, modern)
        self._parts.clear()
        self._handler, self._size = None, 0
        self.receiving = False
        self.dead = not keep
        self._take(request)

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

    def _route(self) -> Any:
        """The handler for a complete head. Raises HttpError."""
        length = self._announced()
        path, method = self._url.partition(b"?")[0], self._parser.get_method()
        route, self._head_only = find_route(self._server.routes, self._server.method, method, path)
        if length is None and method == b"POST":
            raise HttpError(HTTPStatus.LENGTH_REQUIRED, "neither Content-Length nor Transfer-Encoding is given")
        if length is not None and length > self._limits.body:
            raise too_large(self._limits.body)
        if self._expecting():
            self._proceed()
        return handler_of(route, path, self._values(b"authorization") if b"authorization" in self._firsts else ())

    def _announced(self) -> int | None:
        """Bytes of the body that a head announces; 0: in chunks, None: there is none. Raises HttpError."""
        if (self._unseen or self._limits.head < self._at_once) and self._size_of_head() > self._limits.head:
            raise _head_too_large(self._limits)
        if self._parser.should_upgrade():
            raise _bad("this server speaks HTTP/1.1 alone and offers no upgrade")
        names = [name for name, _ in self._headers]
        if names.count(b"host") != 1 and self._parser.get_http_version() == "1.1":
            raise _bad("exactly one Host header must be given")
        if names.count(b"content-length") + names.count(b"transfer-encoding") > 1:
            raise _bad("the length of the request is given more than once")
        self._firsts = firsts = dict(reversed(self._headers))
        if b"transfer-encoding" in firsts:
            if firsts[b"transfer-encoding"].lower() != b"chunked":
                raise HttpError(HTTPStatus.NOT_IMPLEMENTED, "the only transfer encoding served is chunked")
            return 0
        return int(firsts[b"content-length"]) if b"content-length" in firsts else None

    def _size_of_head(self) -> int:
        return sum(len(name) + len(value) + 4 for name, value in self._headers) + len(self._url)

    def _expecting(self) -> bool:
        """Whether the client waits to be told to send the body. Raises HttpError."""
        return b"expect" in self._firsts and expects_continue(self._values(b"expect"))

    def _values(self, name: bytes) -> list[bytes]:
        return [value for key, value in self._headers if key == name]


def _bad(text: str) -> HttpError:
    return HttpError(HTTPStatus.BAD_REQUEST, text)


def _head_too_large(limits: ServerLimits) -> HttpError:
    text = f"request line and headers, or what surrounds a chunk, are larger than {limits.head} bytes"
    return HttpError(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, text)
