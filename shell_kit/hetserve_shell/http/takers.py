"""Requests to whom their heads choose: each is taken once its body is whole, and answered by calls, without a task.

Nothing here is of one version of HTTP.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final, Protocol

import orjson

from hetserve_shell.http.limits import HttpError

log = logging.getLogger(__name__)

Headers = Sequence[tuple[bytes, bytes]]


@dataclass(slots=True, eq=False)
class Head:
    """A request without its body. headers: in their order, names in lower case. length: of the body, if it is known.

    is_grpc: its body is one message of gRPC behind its prefix, and so must be the answer's. refused: the status with
    which its body was refused while it came; 0: it was not. note: what a router of heads has found out about it; where
    a client sends the same head again, it comes with its note.
    """

    method: bytes
    path: bytes
    query: bytes
    headers: Headers
    length: int | None
    is_grpc: bool = False
    _firsts: dict[bytes, bytes] | None = field(default=None, repr=False)
    refused: int = 0
    note: Any = field(default=None, repr=False)

    def get(self, name: bytes) -> bytes:
        """The first value of a header; b"": there is none."""
        if self._firsts is None:
            self._firsts = dict(reversed(self.headers))
        return self._firsts.get(name, b"")


class Replier(Protocol):
    """Answers one request; when the answer has ended or the client is gone, calls do nothing.

    Headers come without length, transfer encoding, date and connection, and without line ends in their values.
    paused: whether the client does not read; then `on_resume` is called, where it is set, once it does.
    """

    on_resume: Callable[[], None] | None

    @property
    def paused(self) -> bool: ...

    def answer(self, status: int, headers: Headers, body: bytes | bytearray, trailers: Headers = ()) -> None:
        """The whole answer. trailers: HTTP/1.1 drops them."""

    def refuse(self, error: HttpError) -> None:
        """An answer that says what is wrong, in the client's protocol, after its pause; the taker hears no more."""

    def begin(self, status: int, headers: Headers, length: int | None) -> None:
        """Begins an answer in pieces. length: of all of them; None: not known."""

    def write(self, piece: bytes) -> None: ...

    def end(self, trailers: Headers = ()) -> None:
        """Ends an answer in pieces; aborts it where bytes of its length are missing."""

    def abort(self) -> None:
        """Ends the answer so that the client sees that it is not whole."""


class Taker(Protocol):
    """Takes one request. limit: bytes of its body at most, of gRPC without the prefix."""

    @property
    def limit(self) -> int: ...

    def take(self, body: bytes | bytearray, reply: Replier) -> None:
        """Called once, with the whole body. May raise HttpError in place of an answer."""

    def gone(self) -> None:
        """The client went, or broke off, before its answer ended; if `take` was not called, it never will be.

        Then its body may have been refused: see `Head.refused`.
        """


class HeadRouter(Protocol):
    """Chooses takers."""

    def asked(self, head: Head) -> Taker:
        """Called before the body is read. Raises HttpError for a request that is not served."""


def refusal(error: HttpError) -> tuple[int, Headers, bytes]:
    """Status, headers and body that say what is wrong."""
    headers = [(b"content-type", b"application/json"), *error.headers]
    return error.status, headers, orjson.dumps({"error": str(error)})


def say_gone(taker: Taker) -> None:
    try:
        taker.gone()
    except Exception:
        log.exception("a taker failed")


@dataclass(slots=True, eq=False)
class Refusal:
    """Refuses a request whose body is so short that it is read, so that the connection stays."""

    error: HttpError
    limit: int = 1 << 20

    def take(self, _body: bytes | bytearray, reply: Replier) -> None:
        reply.refuse(self.error)

    def gone(self) -> None:
        """Nothing was promised."""


NOBODY: Final = Refusal(HttpError(HTTPStatus.INTERNAL_SERVER_ERROR, "answered already"))
"""Stands for who took a request that is answered."""
