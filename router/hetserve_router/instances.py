"""An instance as the router asks it: its kept connections, and whether it is ready."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from hetserve.base.failures import Failure
from hetserve_shell.http import grpc
from hetserve_shell.http.calls import AnswerListener, Call, ClientConnection, Upstream
from hetserve_shell.http.stream_calls import StreamConnection
from hetserve_shell.http.takers import Head, Headers

if TYPE_CHECKING:
    from hetserve_router.exchange import QueryExchange

PASSED_ON: Final = frozenset(
    (
        b"content-type",
        b"accept",
        b"content-encoding",
        b"inference-header-content-length",
        b"authorization",
        b"x-request-id",
        b"traceparent",
        b"tracestate",
        b"baggage",
    )
)
"""Headers of a query that its instance gets."""
_OF_A_HOP: Final = frozenset(
    (
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
        b"content-length",
        b"date",
        b"server-timing",
    )
)
MOST_ANSWERED: Final = 1 << 20
"""Bytes of an instance's answer about its model at most."""
PROBED_WITHIN: Final = 1.0
Later = Callable[[float, Callable[[], None]], asyncio.TimerHandle]
"""As the loop's `call_later`."""


@dataclass(frozen=True, slots=True)
class InstanceAddress:
    """An instance that may be asked. uid: of its pod; name: what clients and metrics see.

    port, grpc_port: on which it speaks HTTP and gRPC; None: it does not.
    """

    uid: str
    name: str
    type: str
    host: str
    port: int | None
    grpc_port: int | None = None


class InstanceLink:
    """number: the core's. row: of its figures.

    query: that it serves; counted: until when that is in its figures [s]. label: names it in answers. is_draining: it
    gets none, also before the core knows it. failure: what was heard of it last, if that is one. has_left: once it
    serves none it is forgotten. turn: number of the last request about its model that it got; 0: none.
    """

    query: QueryExchange | None = None
    counted = 0.0
    is_draining = True
    failure = ""
    has_left = False
    turn = 0

    def __init__(self, number: int, address: InstanceAddress, row: int) -> None:
        self.number, self.address, self.row = number, address, row
        self.name = address.name
        self.label = b"hetserve-instance", self.name.encode()
        self._heard: Headers = ()
        self._passed_back: Headers = ()
        self._http = Upstream(address.host, address.port or 0, connects=ClientConnection)
        self._grpc = Upstream(address.host, address.grpc_port or 0, connects=StreamConnection)
        shown = f"[{address.host}]" if ":" in address.host else address.host
        self._host, self._authority = (f"{shown}:{port}".encode() for port in (address.port, address.grpc_port))

    def passed_back(self, headers: Headers) -> Headers:
        """See `passed_back`; headers that come again, as the same object, are not looked at again."""
        if headers is not self._heard:
            self._heard, self._passed_back = headers, passed_back(headers)
        return self._passed_back

    def send(self, head: Head, method: bytes, body: bytes | bytearray, listener: AnswerListener) -> Call:
        """Asks the instance in the protocol of the client. head: of the client's request."""
        if head.is_grpc:
            headers = [header for header in head.headers if header[0] in PASSED_ON]
            start = (
                (b":method", b"POST"),
                (b":scheme", b"http"),
                (b":path", head.path),
                (b":authority", self._authority),
            )
            return self._grpc.send([*start, (b"te", b"trailers"), *headers], body, listener)
        begin, end = head.note.lines if head.note else lines_of(head, method)
        whole = b"%b%b\r\ncontent-length: %d%b" % (begin, self._host, len(body), end)
        return self._http.send(whole, body, listener)

    def close(self) -> None:
        """Closes the connections on which nothing is asked."""
        self._http.close()
        self._grpc.close()

    def probe(self, model: str, heard: Callable[[bool], None], later: Later) -> None:
        """Asks whether the model is ready; says so once, within a second."""
        if self.address.port is not None:
            head, body = Head(b"GET", b"/v2/models/%b/ready" % model.encode(), b"", (), 0), b""
        else:
            head = Head(b"POST", grpc.MODEL_READY, b"", (grpc.CONTENT_TYPE,), None, is_grpc=True)
            body = grpc.framed(grpc.field(1, model))
        question = ModelQuestion(lambda answer: heard(answer.is_yes))
        question.ask(self, head, head.method, body, within=PROBED_WITHIN, later=later)


def lines_of(head: Head, method: bytes) -> tuple[bytes, bytes]:
    """The head of a request to an instance: what comes before its address, and what comes behind the body's length."""
    target = b"%b?%b" % (head.path, head.query) if head.query else head.path
    passed = b"".join([b"%b: %b\r\n" % header for header in head.headers if header[0] in PASSED_ON])
    return b"%b %b HTTP/1.1\r\nhost: " % (method, target), b"\r\n%b\r\n" % passed


def passed_back(headers: Headers) -> Headers:
    """Headers of an instance's answer that the client gets."""
    return [header for header in headers if header[0] not in _OF_A_HOP]


class ModelQuestion:
    """A request to an instance that is no query, and its whole answer; `heard` is called once.

    failed: why there is no answer; empty: there is one.
    """

    def __init__(self, heard: Callable[[ModelQuestion], None]) -> None:
        self._heard: Callable[[ModelQuestion], None] | None = heard
        self._call: Call | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._is_grpc = False
        self.status, self.body, self.failed = 0, bytearray(), ""
        self.headers: Headers = ()
        self.trailers: Headers = ()

    @property
    def is_yes(self) -> bool:
        """Whether it says that something is ready."""
        if self._is_grpc:
            return not self.failed and bytes(self.body) == grpc.framed(grpc.field(1, 1))
        return not self.failed and 200 <= self.status < 300

    def ask(
        self, to: InstanceLink, head: Head, method: bytes, body: bytes | bytearray, *, within: float, later: Later
    ) -> None:
        """within: until there must be a whole answer [s]."""
        self._is_grpc = head.is_grpc
        self._call = to.send(head, method, body, self)
        self._timer = later(within, lambda: self.give_up(f"no answer within {within:g} s"))

    def give_up(self, reason: str) -> None:
        """Waits no longer."""
        if self._call is not None and self._heard is not None:
            self._call.cancel()
        self._end(reason)

    def on_head(self, status: int, headers: Headers) -> None:
        self.status, self.headers = status, headers

    def on_piece(self, piece: bytes) -> None:
        self.body += piece
        if len(self.body) > MOST_ANSWERED:
            self.give_up(f"an answer of more than {MOST_ANSWERED} bytes")

    def on_end(self, trailers: Headers = ()) -> None:
        self.trailers = trailers
        self._end("")

    def on_failed(self, _failure: Failure, reason: str) -> None:
        self._end(reason)

    def _end(self, failed: str) -> None:
        heard, self._heard = self._heard, None
        if self._timer is not None:
            self._timer.cancel()
        if heard is not None:
            self.failed = failed
            heard(self)
