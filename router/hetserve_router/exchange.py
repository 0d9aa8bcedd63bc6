"""One query on the wire: from its head to the last byte of its answer."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Final, NamedTuple

from hetserve.base.failures import Failure
from hetserve.routing.actions import Drop, Status
from hetserve_router.inference import (
    GATEWAY_TIMEOUT,
    ITEMS,
    JSON_LENGTH,
    InferenceFacts,
    gateway_timeout,
    read_inference,
    read_message,
    read_name,
)
from hetserve_router.instances import ModelQuestion, lines_of, passed_back
from hetserve_shell.http.calls import Call
from hetserve_shell.http.grpc import http_status
from hetserve_shell.http.limits import HttpError
from hetserve_shell.http.takers import Head, Headers, Replier

if TYPE_CHECKING:
    from hetserve_router.instances import InstanceLink
    from hetserve_router.served import ServedService, ServedSpec
    from hetserve_services.facts import Key

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


class Route(NamedTuple):
    """Where queries go that ask the same, while the service is so declared."""

    key: Key
    service: ServedService
    spec: ServedSpec


class QueryNote:
    """What the head of a query by HTTP says, of which a client may send many.

    lines: see `lines_of`. items, json_length, coding: headers, see `read_inference`. within: that a gateway waits [s].
    """

    __slots__ = ("coding", "items", "json_length", "lines", "route", "within")

    def __init__(self, head: Head, route: Route) -> None:
        get, self.route, self.lines = head.get, route, lines_of(head, head.method)
        self.items, self.json_length, self.coding = get(ITEMS), get(JSON_LENGTH), get(b"content-encoding")
        self.within = gateway_timeout(get(GATEWAY_TIMEOUT))


class QueryExchange:
    """Takes a query and hears its instance's answer.

    reply: to the client; None: nobody waits. number: of the core, -1: it does not know the query. began: when its head
    came; arrived: when it was whole; sent: when its instance got it [s]. asked: name of the instance that got it last.
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
        "began",
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
        self.began, self.arrived, self.sent = service.now(), 0.0, 0.0
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
                self.facts = self._read(head, body)
            if head.length is None:
                self._service.hold_more(len(body))
                self._held = len(body)
        except Exception as error:
            self._service.release(self._held)
            if isinstance(error, HttpError):
                self._service.refuses(head, error)
            raise
        self._body, self.reply = body, reply
        note: QueryNote | None = head.note
        within = gateway_timeout(head.get(GATEWAY_TIMEOUT)) if note is None else note.within
        self._service.arrived(self, self.facts, within)

    def gone(self) -> None:
        if self.number < 0:
            self._service.release(self._held)
            self._service.broken_off(self._head)
        elif self.reply is not None:  # else it has ended meanwhile
            self.reply = None
            self._read_on()
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
        self._call = instance.send(self._head, self._head.method, self._body, self)

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
        again = None if action.retry_after is None else max(1, round(action.retry_after))
        error = HttpError(status, f"{self._service.title}: {action.reason}", retry_after=again)
        if again is not None:
            self._service.slow(error)
        reply.refuse(error)

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

    def on_end(self, trailers: Headers = ()) -> None:
        self._call = None
        reply = self.reply
        if reply is not None:
            if self._begun:
                reply.end(trailers)
            else:
                reply.answer(self.status, self._answer_headers(), b"".join(self._pieces), trailers)
        self._pieces = []
        if self._head.is_grpc and self.status == HTTPStatus.OK:
            self.status = http_status(trailers or self._headers)
        self._service.answered(self)

    def on_failed(self, failure: Failure, reason: str) -> None:
        self._call = None
        # An answer of which the client has seen a part cannot come from elsewhere.
        self._service.failed(self, Failure.LOST if self._begun else failure, reason)

    # Inside

    def _read(self, head: Head, body: bytes | bytearray) -> InferenceFacts:
        note: QueryNote | None = head.note
        if note is not None:
            return read_inference(body, note.items, note.json_length, note.coding)
        if not head.is_grpc:
            return read_inference(body, head.get(ITEMS), head.get(JSON_LENGTH), head.get(b"content-encoding"))
        model, facts = read_message(body, head.get(ITEMS), head.get(b"grpc-timeout"))
        self._service.check_model(model)
        return facts

    def _read_on(self) -> None:
        """What nobody waits for is read to its end: the instance is free then."""
        self._pieces = []
        if self._call is not None:
            self._call.resume()

    def _answer_headers(self) -> list[tuple[bytes, bytes]]:
        queue, service = 1e3 * (self.sent - self.arrived), 1e3 * (self._service.now() - self.sent)
        timing = b"server-timing", b"queue;dur=%.3f, service;dur=%.3f" % (queue, service)
        if self.instance is None:
            return [*passed_back(self._headers), timing]
        return [*self.instance.passed_back(self._headers), timing, self.instance.label]

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

    __slots__ = ("_head", "_instance", "_question", "_reply", "_service", "limit")

    def __init__(self, service: ServedService, head: Head) -> None:
        self._service, self._head = service, head
        self.limit = WHOLE
        self._instance = ""
        self._question: ModelQuestion | None = None
        self._reply: Replier | None = None

    def take(self, body: bytes | bytearray, reply: Replier) -> None:
        service, head = self._service, self._head
        try:
            if head.is_grpc:
                service.check_model(read_name(body))
            instance = service.begin_question()
        except HttpError as error:
            service.refuses(head, error)
            raise
        self._reply, self._instance = reply, instance.name
        # Not HEAD, which few instances know; who asked for a head gets no more.
        method = b"POST" if head.is_grpc else b"GET"
        self._question = ModelQuestion(self._heard)
        self._question.ask(
            instance, head, method, body if head.is_grpc else b"", within=FORWARDED_WITHIN, later=service.later
        )

    def gone(self) -> None:
        self._reply = None
        if self._question is not None:
            self._question.give_up("")

    def _heard(self, answer: ModelQuestion) -> None:
        self._service.end_question()
        reply, self._reply = self._reply, None
        if reply is None:
            return
        if answer.failed:
            why = f"{self._service.title}: instance {self._instance}: {answer.failed}"
            reply.refuse(HttpError(HTTPStatus.BAD_GATEWAY, why))
        else:
            reply.answer(answer.status, passed_back(answer.headers), answer.body, answer.trailers)
