"""Limits, handlers and answers of the HTTP server, and the bound on answers that clients of HTTP/2 do not take."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final

import orjson

log = logging.getLogger(__name__)


class LastAnswer(bytes):
    """The JSON of a 200; closes the connection, so that a load balancer can choose another server."""


@dataclass(frozen=True, slots=True)
class Reply:
    """Any other answer. blocks: parts of the body; other requests are served between two."""

    blocks: Sequence[bytes]
    media_type: str = "text/plain; charset=utf-8"
    status: HTTPStatus = HTTPStatus.OK

    @classmethod
    def text(cls, message: str, status: HTTPStatus = HTTPStatus.OK) -> Reply:
        return cls((f"{message}\n".encode(),), status=status)


Result = bytes | Reply
Handler = Callable[[bytes], Result | Coroutine[Any, Any, Result]]
"""Takes the body of a request; answers at once or by a coroutine. Raises HttpError."""
Check = Callable[[str, Sequence[bytes]], Coroutine[Any, Any, None]]
"""Takes the path and the Authorization headers of a request; raises HttpError for a caller who may not."""


@dataclass(frozen=True, slots=True)
class Guarded:
    """A route that answers whom `check` lets through."""

    handler: Handler
    check: Check

    def asked(self, path: bytes, credentials: Sequence[bytes]) -> Handler:
        """The handler for one request. credentials: its Authorization headers."""

        async def answer(body: bytes) -> Result:
            await self.check(path.decode("latin-1"), credentials)
            result = self.handler(body)
            return result if isinstance(result, bytes | Reply) else await result

        return answer


Routes = Mapping[bytes, Handler | Guarded]
"""Who takes a request, by its path."""

WHOLE: Final = 16 * 1024
"""Bytes of a body beyond which it is not copied to be joined with others."""
CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
_KEEP: Final = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\nDate: %b\r\n\r\n"
_LAST: Final = (
    b"HTTP/1.1 %d %b\r\nContent-Type: application/json\r\nContent-Length: %d\r\nDate: %b\r\n%bConnection: close\r\n\r\n"
)
_REPLY: Final = b"HTTP/1.1 %d %b\r\nContent-Type: %b\r\nContent-Length: %d\r\nDate: %b\r\n%b\r\n"


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """Bytes, counts and seconds that clients can take.

    head: request line and headers. body: of one request. bodies: of all waiting requests. connections: open ones.
    streams: requests beside each other on one connection of HTTP/2. answers: all that clients of HTTP/2 have not taken.
    backlog: not accepted yet; asyncio accepts all in one turn. waiting: for the first byte of a connection and for a
    whole request. uploading: more, for one whose head has come. idle: between requests; longer than the client's own
    limit (Go: 90 s). unread: for a client that does not read. lingering: after a refusal, so that a reset does not
    overtake it.
    """

    head: int = 64 * 1024
    body: int = 4 * 1024 * 1024
    bodies: int = 32 * 1024 * 1024
    connections: int = 1024
    streams: int = 256
    answers: int = 32 * 1024 * 1024
    backlog: int = 2048
    waiting: float = 10.0
    uploading: float = 0.0
    idle: float = 120.0
    unread: float = 10.0
    lingering: float = 2.0


class HttpError(Exception):
    """Refuses a request and closes its connection; takers keep it unless it `closes`.

    allow: methods of the path, for a 405. retry_after: [s].
    """

    def __init__(
        self, status: HTTPStatus, text: str, allow: str = "", retry_after: int | None = None, *, closes: bool = False
    ) -> None:
        super().__init__(text)
        self.closes = closes
        self.status = status
        self.headers = list[tuple[bytes, bytes]]()
        if allow:
            self.headers.append((b"allow", allow.encode()))
        if retry_after is not None:
            self.headers.append((b"retry-after", b"%d" % retry_after))
        if status == HTTPStatus.UNAUTHORIZED:
            self.headers.append((b"www-authenticate", b"Bearer"))


@dataclass(slots=True)
class BodyBudget:
    limit: int
    used: int = 0


@dataclass(slots=True, eq=False)
class Exchange:
    """A request that came whole or in part, and its answer until all of it is sent.

    since: when it began, came whole, or its answer went on last [s]. limit: bytes of its body at most. length: of its
    body, if that is known; size: so much has come; untold: of this its client does not know yet. received: whether its
    end has come. answer: what there is of it; None: nothing yet. whole: whether no more of it comes but trailers. sent:
    bytes of it; noted: of these, when it went on last. more_room: bytes that its client takes beyond those of a new
    stream.
    """

    stream: int
    since: float
    handler: Handler
    limit: int
    head_only: bool = False
    parts: list[bytes] = field(default_factory=list)
    length: int | None = None
    size: int = 0
    untold: int = 0
    received: bool = False
    answer: bytes | None = None
    whole: bool = True
    trailers: Sequence[tuple[bytes, bytes]] = ()
    sent: int = 0
    noted: int = 0
    more_room: int = 0

    def ends_with(self, sent: int) -> bool:
        """Whether nothing is to come behind so many bytes of the answer."""
        return self.whole and not self.trailers and sent == len(self.answer or b"")


class Unsent:
    """Answers that clients have not taken, on all connections of a server.

    Beyond `limit` bytes the one goes that has stood still longest. used: bytes of those that are kept.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0
        self._kept: dict[Exchange, tuple[Callable[[Exchange], None], int]] = {}
        """What gives it up, and its bytes; the one that has stood still longest comes first."""

    def keep(self, exchange: Exchange, give_up: Callable[[Exchange], None]) -> None:
        """give_up: ends the answer, and releases it, for those that go on."""
        self.release(exchange)
        self._kept[exchange] = give_up, len(exchange.answer or b"")
        self.used += len(exchange.answer or b"")
        while self.used > self.limit:
            longest, (give_up, _) = next(iter(self._kept.items()))
            log.warning("more than %d bytes of answers are not taken: one is given up", self.limit)
            give_up(longest)

    def went_on(self, exchange: Exchange) -> None:
        """Notes that a client has taken some of an answer."""
        if kept := self._kept.pop(exchange, None):
            self._kept[exchange] = kept

    def release(self, exchange: Exchange) -> None:
        if kept := self._kept.pop(exchange, None):
            self.used -= kept[1]


def kept_answer(body: bytes, date: bytes) -> bytes:
    """A 200 on a kept connection."""
    return _KEEP % (len(body), date) + body


def last_answer(body: bytes, date: bytes, status: HTTPStatus = HTTPStatus.OK, headers: bytes = b"") -> bytes:
    """An answer before the connection closes. headers: more of them, each with its line end."""
    return _LAST % (status, status.phrase.encode(), len(body), date, headers) + body


def error_answer(error: HttpError, date: bytes, key: str) -> bytes:
    """key: under which the JSON says what is wrong."""
    headers = b"".join(b"%b: %b\r\n" % header for header in error.headers)
    return last_answer(orjson.dumps({key: str(error)}), date, error.status, headers)


def reply_head(reply: Reply, date: bytes, *, keep: bool) -> bytes:
    size = sum(map(len, reply.blocks))
    close = b"" if keep else b"Connection: close\r\n"
    return _REPLY % (reply.status, reply.status.phrase.encode(), reply.media_type.encode(), size, date, close)


def find_route(routes: Routes, served: bytes, method: bytes, path: bytes) -> tuple[Handler | Guarded, bool]:
    """The route of a path, and whether it is asked for its head only. Raises HttpError.

    served: the method of all routes; where that is GET, HEAD is served too.
    """
    route = routes.get(path)
    if route is None:
        raise HttpError(HTTPStatus.NOT_FOUND, f"no such path; there are: {b', '.join(routes).decode()}")
    head_only = method == b"HEAD"
    if method != served and not (head_only and served == b"GET"):
        allow = "GET, HEAD" if served == b"GET" else served.decode()
        raise HttpError(HTTPStatus.METHOD_NOT_ALLOWED, f"the only methods served are: {allow}", allow)
    return route, head_only


def handler_of(route: Handler | Guarded, path: bytes, credentials: Sequence[bytes]) -> Handler:
    """What answers one request. credentials: its Authorization headers."""
    return route.asked(path, credentials) if isinstance(route, Guarded) else route


def values_of(headers: Sequence[tuple[bytes, bytes]], name: bytes) -> list[bytes]:
    return [value for key, value in headers if key == name]


def expects_continue(expected: Sequence[bytes]) -> bool:
    """Whether a client waits to be told that it may send the body. expected: its Expect headers. Raises HttpError."""
    if any(value.lower() != b"100-continue" for value in expected):
        raise HttpError(HTTPStatus.EXPECTATION_FAILED, "the only expectation served is 100-continue")
    return bool(expected)


def too_large(limit: int) -> HttpError:
    return HttpError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"the request is larger than {limit} bytes")


def too_many() -> HttpError:
    return HttpError(HTTPStatus.SERVICE_UNAVAILABLE, "too many large requests at once")


def too_slow(seconds: float) -> HttpError:
    return HttpError(HTTPStatus.REQUEST_TIMEOUT, f"the request was not complete within {seconds:g} s")


def as_http_error(error: Exception) -> HttpError:
    """What a client is told about a handler that raised."""
    if isinstance(error, HttpError):
        return error
    log.error("a handler failed", exc_info=error)
    return HttpError(HTTPStatus.INTERNAL_SERVER_ERROR, f"{type(error).__name__}: {error}")


def write_joined(transport: asyncio.Transport, head: bytes, body: bytes | bytearray) -> None:
    if len(body) <= WHOLE:
        transport.write(head + body)
    else:
        transport.write(head)
        transport.write(body)
