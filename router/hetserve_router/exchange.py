"""One query on the wire: from its head to the last byte of its answer."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Final

import orjson

from hetserve.routing.actions import Drop, Failure, Status
from hetserve_router.inference import InferenceFacts, read_inference
from hetserve_shell.http.calls import Call, CallFailure
from hetserve_shell.http.limits import HttpError
from hetserve_shell.http.takers import Head, Headers, Replier

if TYPE_CHECKING:
    from hetserve_router.instances import InstanceLink
    from hetserve_router.served import ServedService

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
JSON: Final = ((b"content-type", b"application/json"),)
FORWARDED: Final = 1 << 20
"""Bytes of an instance's answer about its model at most."""
FORWARDED_WITHIN: Final = 5.0
WHOLE: Final = 64 * 1024
"""Bytes of an answer up to which it is sent at once."""
HTTP_STATUS: Final = {
    Status.OVERLOADED: HTTPStatus.TOO_MANY_REQUESTS,
    Status.NO_INSTANCE: HTTPStatus.SERVICE_UNAVAILABLE,
    Status.TOO_MANY_INSTANCES: HTTPStatus.SERVICE_UNAVAILABLE,
    Status.DEADLINE_EXCEEDED: HTTPStatus.GATEWAY_TIMEOUT,
    Status.INSTANCE_FAILED: HTTPStatus.BAD_GATEWAY,
    Status.TOO_LARGE: HTTPStatus.BAD_REQUEST,
}
_FAILURES: Final = {
    CallFailure.NOT_SENT: Failure.NOT_SENT,
    CallFailure.CLOSED_UNANSWERED: Failure.CLOSED_UNANSWERED,
    CallFailure.LOST: Failure.LOST,
}


class QueryExchange:
    """Takes a query and hears its instance's answer.

    reply: to the client; None: nobody waits. number: of the core, -1: it does not know the query. arrived, sent: when
    the query was whole, and when its instance got it [s]. asked: name of the instance that got it last.
    """

    __slots__ = (
        "_begun",
        "_body",
        "_call",
        "_head",
        "_headers",
        "_held",
        "_pieces",
        "_service",
        "_size",
        "arrived",
        "asked",
        "facts",
        "instance",
        "limit",
        "number",
        "reply",
        "sent",
        "status",
    )

    def __init__(self, service: ServedService, head: Head, facts: InferenceFacts | None = None) -> None:
        """facts: where they are not read from the body, which is of a path beside inference."""
        self._service, self._head, self.facts = service, head, facts
        self.limit = service.limits.body
        self.number = -1
        self.reply: Replier | None = None
        self.instance: InstanceLink | None = None
        self.arrived = self.sent = 0.0
        self.asked: str | None = None
        self.status = 0
        self._call: Call | None = None
        self._body: bytes | bytearray = b""
        self._held = head.length or 0
        self._headers: Headers = ()
        self._pieces: list[bytes] = []
        self._size = 0
        self._begun = False
        service.hold(self._held)

    # Called by the connection of the client

    def take(self, body: bytes | bytearray, reply: Replier) -> None:
        head = self._head
        try:
            if self.facts is None:
                get = head.get
                self.facts = read_inference(
                    body, get(b"hetserve-items"), get(b"inference-header-content-length"), get(b"content-encoding")
                )
            if head.length is None:
                self._service.hold_more(len(body))
                self._held = len(body)
        except Exception as error:
            self._service.release(self._held)
            if isinstance(error, HttpError):
                self._service.access_log.refused(head, error.status, self._service.title)
            raise
        self._body, self.reply = body, reply
        self._service.arrived(self, self.facts, head)

    def gone(self) -> None:
        self.reply = None
        self._read_on()
        if self.number < 0:
            self._service.release(self._held)
        else:
            self._service.gone(self)

    # Called by the service

    @property
    def traffic(self) -> tuple[Head, int, int]:
        """Its head, and the bytes of its body and of its instance's answer so far."""
        return self._head, self._held, self._size

    def send(self, instance: InstanceLink, now: float) -> None:
        """Gives the query to an instance."""
        self.instance, self.asked, self.sent = instance, instance.name, now
        self._pieces, self._size, self.status = [], 0, 0
        request = _request(self._head, self._head.method, instance.host, len(self._body))
        self._call = instance.upstream.send(request, self._body, self)

    def refuse(self, action: Drop) -> None:
        """Ends the query without an instance's answer."""
        reply, self.reply = self.reply, None
        status = HTTP_STATUS[action.status]
        self.status = status
        if reply is None:
            return
        self._read_on()
        if self._begun:
            reply.abort()
            return
        headers = [*JSON]
        if action.retry_after is not None:
            headers.append((b"retry-after", b"%d" % max(1, round(action.retry_after))))
        reply.answer(status, headers, orjson.dumps({"error": f"{self._service.title}: {action.reason}"}))

    def abandon(self) -> None:
        """Awaits no answer any more."""
        call, self._call = self._call, None
        if call is not None:
            call.cancel()

    def ended(self) -> None:
        """The core has forgotten the query."""
        self._body = b""
        self._service.release(self._held)

    # Called by the connection to the instance

    def on_head(self, status: int, headers: Headers) -> None:
        self.status, self._headers = status, headers

    def on_piece(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._begun or self.reply is None:
            self._write(piece)
            return
        self._pieces.append(piece)
        if self._size > WHOLE:
            self._begin(self.reply)

    def on_end(self) -> None:
        self._call = None
        reply = self.reply
        if reply is not None:
            if self._begun:
                reply.end()
            else:
                reply.answer(self.status, self._answer_headers(), b"".join(self._pieces))
        self._pieces = []
        self._service.answered(self)

    def on_failed(self, failure: CallFailure, reason: str) -> None:
        self._call = None
        # An answer of which the client has seen a part cannot come from elsewhere.
        self._service.failed(self, Failure.LOST if self._begun else _FAILURES[failure], reason)

    # Inside

    def _read_on(self) -> None:
        """What nobody waits for is read to its end: the instance is free then."""
        self._pieces = []
        if self._call is not None:
            self._call.resume()

    def _answer_headers(self) -> list[tuple[bytes, bytes]]:
        headers = [header for header in self._headers if header[0] not in _OF_A_HOP]
        queue, service = 1e3 * (self.sent - self.arrived), 1e3 * (self._service.now() - self.sent)
        headers.append((b"server-timing", b"queue;dur=%.3f, service;dur=%.3f" % (queue, service)))
        if self.instance is not None:
            headers.append((b"hetserve-instance", self.instance.name.encode()))
        return headers

    def _begin(self, reply: Replier) -> None:
        length = next((int(value) for name, value in self._headers if name == b"content-length"), None)
        reply.begin(self.status, self._answer_headers(), length)
        self._begun = True
        pieces, self._pieces = self._pieces, []
        for piece in pieces:
            self._write(piece)

    def _write(self, piece: bytes) -> None:
        reply, call = self.reply, self._call
        if reply is None:
            return
        reply.write(piece)
        if reply.paused and call is not None:
            call.pause()
            reply.on_resume = call.resume


class ForwardedExchange:
    """A request about the model that any instance answers, and that is no query."""

    __slots__ = ("_answer", "_call", "_head", "_headers", "_instance", "_reply", "_service", "_status", "limit")

    def __init__(self, service: ServedService, head: Head, instance: InstanceLink) -> None:
        self._service, self._head, self._instance = service, head, instance
        self.limit = WHOLE
        self._call: Call | None = None
        self._reply: Replier | None = None
        self._status, self._answer = 0, bytearray()
        self._headers: Headers = ()

    def take(self, _body: bytes | bytearray, reply: Replier) -> None:
        self._reply = reply
        # Not HEAD, which few instances know; who asked for a head gets no more.
        request = _request(self._head, b"GET", self._instance.host, 0)
        self._call = self._instance.upstream.send(request, b"", self)
        self._service.later(FORWARDED_WITHIN, lambda: self._give_up(f"no answer within {FORWARDED_WITHIN:g} s"))

    def gone(self) -> None:
        self._reply = None
        self._give_up("")

    def on_head(self, status: int, headers: Headers) -> None:
        self._status, self._headers = status, headers

    def on_piece(self, piece: bytes) -> None:
        self._answer += piece
        if len(self._answer) > FORWARDED:
            self._give_up(f"an answer of more than {FORWARDED} bytes")

    def on_end(self) -> None:
        self._call = None
        self._end(self._status, [header for header in self._headers if header[0] not in _OF_A_HOP], self._answer)

    def on_failed(self, _failure: CallFailure, reason: str) -> None:
        self._call = None
        self._give_up(reason)

    def _give_up(self, reason: str) -> None:
        call, self._call = self._call, None
        if call is not None:
            call.cancel()
        error = {"error": f"{self._service.title}: instance {self._instance.name}: {reason}"}
        self._end(HTTPStatus.BAD_GATEWAY, JSON, orjson.dumps(error))

    def _end(self, status: int, headers: Headers, body: bytes | bytearray) -> None:
        reply, self._reply = self._reply, None
        if reply is not None:
            reply.answer(status, headers, body)


def _request(head: Head, method: bytes, host: bytes, length: int) -> bytes:
    """The head of a request that an instance gets in place of a client's."""
    target = b"%b?%b" % (head.path, head.query) if head.query else head.path
    lines = [b"%b %b HTTP/1.1\r\nhost: %b\r\ncontent-length: %d\r\n" % (method, target, host, length)]
    lines += [b"%b: %b\r\n" % header for header in head.headers if header[0] in PASSED_ON]
    lines.append(b"\r\n")
    return b"".join(lines)
