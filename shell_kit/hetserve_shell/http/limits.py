"""Limits of the HTTP server, its handlers, and the bytes of its answers."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

import orjson


class LastAnswer(bytes):
    """The JSON of a 200 after which the connection is closed, so that a load balancer can choose another server."""


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer other than the JSON of a 200. blocks: parts of the body; other requests are served between two."""

    blocks: Sequence[bytes]
    media_type: str = "text/plain; charset=utf-8"
    status: HTTPStatus = HTTPStatus.OK

    @classmethod
    def text(cls, words: str, status: HTTPStatus = HTTPStatus.OK) -> Reply:
        """A line of plain text."""
        return cls((f"{words}\n".encode(),), status=status)


Result = bytes | Reply
"""The JSON of a 200, or any other answer."""
Handler = Callable[[bytes], Result | Coroutine[Any, Any, Result]]
"""Takes the body of a request; answers at once or when its coroutine ends. Raises HttpError."""
Routes = Mapping[bytes, Handler]
"""Handlers by path."""

CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
_KEEP: Final = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\nDate: %b\r\n\r\n"
_LAST: Final = (
    b"HTTP/1.1 %d %b\r\nContent-Type: application/json\r\nContent-Length: %d\r\nDate: %b\r\n%bConnection: close\r\n\r\n"
)
_REPLY: Final = b"HTTP/1.1 %d %b\r\nContent-Type: %b\r\nContent-Length: %d\r\nDate: %b\r\n%b\r\n"


@dataclass(frozen=True, slots=True)
class Limits:
    """Bytes, counts and seconds that bound what clients can take, however many they are.

    head: request line and headers. body: of one request. bodies: of all requests not served yet. connections: open
    ones. backlog: those not accepted yet; asyncio accepts as many in one turn. waiting: until the first byte of a
    connection, and from the first to the last byte of a request. idle: between two requests; longer than the client's
    own limit (Go: 90 s), or a request meets a closing connection. unread: for a client that does not read its answer.
    lingering: after a refusal, so that a reset does not overtake the answer.
    """

    head: int = 64 * 1024
    body: int = 4 * 1024 * 1024
    bodies: int = 32 * 1024 * 1024
    connections: int = 1024
    backlog: int = 2048
    waiting: float = 10.0
    idle: float = 120.0
    unread: float = 10.0
    lingering: float = 2.0


class HttpError(Exception):
    """A request that is refused with a status; its connection is closed. allow: methods of the path, for a 405."""

    def __init__(self, status: HTTPStatus, text: str, allow: str = "") -> None:
        super().__init__(text)
        self.status = status
        self.allow = allow


@dataclass(slots=True)
class BodyBudget:
    """Bytes held for requests that are not served yet, over all connections."""

    limit: int
    used: int = 0


def kept_answer(body: bytes, date: bytes) -> bytes:
    """A 200 after which the connection stays open."""
    return _KEEP % (len(body), date) + body


def last_answer(body: bytes, date: bytes, status: HTTPStatus = HTTPStatus.OK, headers: bytes = b"") -> bytes:
    """An answer after which the connection is closed; `headers`: more of them, each with its line end."""
    return _LAST % (status, status.phrase.encode(), len(body), date, headers) + body


def error_answer(error: HttpError, date: bytes) -> bytes:
    """The answer to a request that is refused."""
    allow = f"Allow: {error.allow}\r\n".encode() if error.allow else b""
    return last_answer(orjson.dumps({"Error": str(error)}), date, error.status, allow)


def reply_head(reply: Reply, date: bytes, *, keep: bool) -> bytes:
    """Status line and headers of a reply."""
    size = sum(map(len, reply.blocks))
    close = b"" if keep else b"Connection: close\r\n"
    return _REPLY % (reply.status, reply.status.phrase.encode(), reply.media_type.encode(), size, date, close)
