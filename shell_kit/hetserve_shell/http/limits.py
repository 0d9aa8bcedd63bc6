"""What the HTTP server allows its clients, what it serves, and how an answer looks on the wire."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

import orjson

Handler = Callable[[bytes], bytes | Coroutine[Any, Any, bytes]]
"""Takes the body of a POST; gives the JSON of a 200, at once or when its coroutine ends. Raises HttpError."""

Routes = Mapping[bytes, Handler]


class LastAnswer(bytes):
    """The JSON of a 200 after which the connection is closed: the client's next one may lead to somebody else."""


CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
_KEEP: Final = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\nDate: %b\r\n\r\n"
_LAST: Final = (
    b"HTTP/1.1 %d %b\r\nContent-Type: application/json\r\nContent-Length: %d\r\nDate: %b\r\n%bConnection: close\r\n\r\n"
)


@dataclass(frozen=True, slots=True)
class Limits:
    """Bytes and seconds; together they bound the memory and the time that any number of clients can take.

    head: request line and headers. body: of one request; names of nodes take 0.3 MiB for 5,000 nodes and whole nodes
    some 10 KiB each. bodies: of all requests not yet served, together.
    waiting: until the first byte of a connection, and from the first to the last byte of a request.
    idle: between two requests; longer than the scheduler's own 90 s, else a request is lost when it goes out
    while we close. unread: for an answer that the client does not read. lingering: after an answer to a request
    that is not read to its end, so that a reset does not overtake the answer.
    """

    head: int = 64 * 1024
    body: int = 4 * 1024 * 1024
    bodies: int = 32 * 1024 * 1024
    connections: int = 1024
    waiting: float = 10.0
    idle: float = 120.0
    unread: float = 10.0
    lingering: float = 2.0


class HttpError(Exception):
    """A request that is answered with a status other than 200, after which its connection is closed."""

    def __init__(self, status: HTTPStatus, text: str) -> None:
        super().__init__(text)
        self.status = status


@dataclass(slots=True)
class BodyBudget:
    """Bytes held for requests that are not served yet, over all connections."""

    limit: int
    used: int = 0


def kept_answer(body: bytes, date: bytes) -> bytes:
    """A 200 after which the connection stays open."""
    return _KEEP % (len(body), date) + body


def last_answer(body: bytes, date: bytes, status: HTTPStatus = HTTPStatus.OK) -> bytes:
    """An answer after which the connection is closed."""
    more = b"Allow: POST\r\n" if status is HTTPStatus.METHOD_NOT_ALLOWED else b""
    return _LAST % (status, status.phrase.encode(), len(body), date, more) + body


def error_answer(error: HttpError, date: bytes) -> bytes:
    """The answer to a request that is refused."""
    return last_answer(orjson.dumps({"Error": str(error)}), date, error.status)
