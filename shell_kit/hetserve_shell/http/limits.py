"""Limits and errors of the HTTP server, and the bound on answers that clients of HTTP/2 do not take."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from hetserve_shell.http.streams import Exchange

log = logging.getLogger(__name__)

WHOLE: Final = 16 * 1024
"""Bytes of a body beyond which it is not copied to be joined with others."""
CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"


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
    """Refuses a request; its connection stays unless it `closes`, or the request is not read to its end.

    allow: methods of the path, for a 405. retry_after: [s]. pause: until it is said [s]; nothing of the request is kept
    meanwhile.
    """

    pause = 0.0

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
