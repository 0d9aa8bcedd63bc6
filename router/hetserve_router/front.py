"""The front: finds the service of each request, and lets its queries in."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from importlib.metadata import version
from typing import Final
from urllib.parse import unquote

import orjson

from hetserve.routing.pace import RefusalPace
from hetserve_router.access_log import AccessLog
from hetserve_router.addresses import SERVICE, Asked, rpc_target_of, service_of, target_of
from hetserve_router.exchange import ForwardedExchange, QueryExchange, QueryNote, Route
from hetserve_router.inference import InferenceFacts
from hetserve_router.served import ServedService, slow
from hetserve_services.facts import Key
from hetserve_shell.http import grpc
from hetserve_shell.http.limits import BodyBudget, HttpError
from hetserve_shell.http.takers import Head, Replier, Taker

ANOTHER_LEADS: Final = "another replica of the router leads"
_OWN: Final = frozenset((Asked.LIVE, Asked.READY, Asked.HEALTH, Asked.SERVER_METADATA))
"""What the router answers itself, whether or not it serves."""
_MOST: Final = 1024
"""Ways to ask that are noted, and the bytes of one."""
_LONGEST: Final = 1024
JSON: Final = ((b"content-type", b"application/json"),)


@dataclass(slots=True, eq=False)
class OwnAnswer:
    """What the router says itself. status, body: over HTTP. message: over gRPC."""

    status: int
    body: bytes
    message: bytes
    is_grpc: bool
    limit: int = 1024

    def take(self, _body: bytes | bytearray, reply: Replier) -> None:
        if self.is_grpc:
            reply.answer(HTTPStatus.OK, (grpc.CONTENT_TYPE,), grpc.framed(self.message), grpc.WELL)
        else:
            reply.answer(self.status, JSON, self.body)

    def gone(self) -> None:
        """Nothing was promised."""


@dataclass(slots=True)
class Front:
    """services: by key. namespaces: that are served. serves: whether this replica takes queries.

    domain: of the cluster. asked_at: when the last request came [s]. budget: of the bytes of all bodies. ending:
    whether readiness sends clients elsewhere, though queries are still taken.
    """

    services: Mapping[Key, ServedService]
    namespaces: Sequence[str]
    serves: Callable[[], bool]
    domain: str = "cluster.local"
    asked_at: float = 0.0
    access_log: AccessLog = field(default_factory=lambda: AccessLog("none"))
    budget: BodyBudget = field(default_factory=lambda: BodyBudget(0))
    ending: bool = False
    _pace: RefusalPace = field(default_factory=RefusalPace)
    _routes: dict[tuple[bytes, bytes, bytes, bytes], Route] = field(default_factory=dict)
    """Of queries, by what their heads ask."""
    _about: bytes = field(init=False)
    _about_message: bytes = field(init=False)

    def __post_init__(self) -> None:
        name, number = "hetserve", version("hetserve")
        self._about = orjson.dumps({"name": name, "version": number, "extensions": ["binary_tensor_data"]})
        self._about_message = grpc.field(1, name) + grpc.field(2, number)

    def asked(self, head: Head) -> Taker:
        """Who takes a request. Raises HttpError."""
        try:
            return self._taker(head)
        except HttpError as error:
            key = ("", "")
            with suppress(HttpError):
                key = self._key(head)
            service = self.services.get(key)
            slow(error, self._pace if service is None else service.pace, time.monotonic())
            self.access_log.refused(head, error.status, "/".join(key).strip("/")[:300])
            raise

    def _taker(self, head: Head) -> Taker:
        service = None if head.is_grpc else self._known(head)
        if service is not None:
            self.asked_at = time.monotonic()
            return self._query(service, head)
        target = rpc_target_of(head.path) if head.is_grpc else target_of(head.path)
        serves = self.serves()
        if target.asked in _OWN:
            return self._own(head, target.asked, serves and not self.ending)
        if not serves:
            raise HttpError(HTTPStatus.SERVICE_UNAVAILABLE, ANOTHER_LEADS, retry_after=1, closes=True)
        self.asked_at = time.monotonic()
        service = self._service(head)
        if head.is_grpc:
            return self._of_the_model(service, head, target.asked)
        if _climbs(head.path):
            raise HttpError(HTTPStatus.BAD_REQUEST, f"path {_shown(head.path)}: must have no segment . or ..")
        if target.asked is Asked.OTHER:
            return self._other(service, head)
        service.check_model(target.model)
        _only(head, *((b"POST",) if target.asked is Asked.INFER else (b"GET", b"HEAD")))
        if target.asked is Asked.INFER:
            self._note(head, service)
        return self._of_the_model(service, head, target.asked)

    def _known(self, head: Head) -> ServedService | None:
        """The service of a query that asks as one before, if it is still so declared; None: the head is to be read."""
        note: QueryNote | None = head.note
        route = self._routes.get(_asking(head)) if note is None else note.route
        if route is None:
            return None
        key, service, spec = route
        if self.services.get(key) is not service or service.spec is not spec or not self.serves():
            head.note = None
            return None
        if note is None:
            head.note = QueryNote(head, route)
        return service

    def forget_routes(self) -> None:
        """Lets go of services that are gone."""
        self._routes.clear()

    def _note(self, head: Head, service: ServedService) -> None:
        """Notes where a query goes."""
        asking, route = _asking(head), Route(service.key, service, service.spec)
        head.note = QueryNote(head, route)
        if sum(map(len, asking)) <= _LONGEST:
            if len(self._routes) == _MOST:
                self._routes.clear()
            self._routes[asking] = route

    def _of_the_model(self, service: ServedService, head: Head, asked: Asked) -> Taker:
        return self._query(service, head) if asked is Asked.INFER else ForwardedExchange(service, head)

    def _key(self, head: Head) -> Key:
        return service_of(head.get(SERVICE), head.get(b"host"), self.namespaces, self.domain)

    def _own(self, head: Head, asked: Asked, ready: bool) -> Taker:
        said = {
            Asked.LIVE: ({"live": True}, HTTPStatus.OK, 1),
            Asked.READY: ({"ready": ready}, HTTPStatus.OK if ready else HTTPStatus.SERVICE_UNAVAILABLE, ready),
            Asked.HEALTH: ({}, HTTPStatus.OK, 1 if ready else 2),
        }.get(asked)
        if not head.is_grpc:
            _only(head, b"GET", b"HEAD")
        if said is None:
            return OwnAnswer(HTTPStatus.OK, self._about, self._about_message, head.is_grpc)
        return OwnAnswer(said[1], orjson.dumps(said[0]), grpc.field(1, said[2]), head.is_grpc)

    def _service(self, head: Head) -> ServedService:
        key = self._key(head)
        service = self.services.get(key)
        if service is None:
            raise HttpError(
                HTTPStatus.NOT_FOUND,
                f"service {'/'.join(key)[:300]}: this router dispatches to no service of that name",
            )
        ports = service.spec.dispatch.ports
        if (ports.grpc if head.is_grpc else ports.http) is None:
            other, this, port = ("HTTP", "gRPC", "grpc") if head.is_grpc else ("gRPC", "HTTP", "http")
            raise HttpError(
                HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
                f"{service.title}: is asked by {other} only; set spec.dispatch.ports.{port} to serve {this}",
            )
        return service

    def _query(self, service: ServedService, head: Head, facts: InferenceFacts | None = None) -> Taker:
        service.admit(head.length)
        if self.budget.used + (head.length or 0) > self.budget.limit:
            why = f"the queries of all services hold {self.budget.used} bytes; at most {self.budget.limit} may"
            raise service.refused(HTTPStatus.SERVICE_UNAVAILABLE, why)
        return QueryExchange(service, head, facts)

    def _other(self, service: ServedService, head: Head) -> Taker:
        path = head.path.decode("latin-1")
        for prefix in service.spec.dispatch.paths:
            if path == prefix or path.startswith(f"{prefix.rstrip('/')}/"):
                _only(head, b"POST")
                return self._query(service, head, InferenceFacts(1, in_sequence=True))
        raise HttpError(
            HTTPStatus.NOT_FOUND,
            f"path {_shown(head.path)}: is not served; there are /v2/models/{service.model}, its /infer and /ready,"
            " and what spec.dispatch.paths lists",
        )


def _asking(head: Head) -> tuple[bytes, bytes, bytes, bytes]:
    """All of a head on which it depends where its query goes."""
    return head.method, head.path, head.get(SERVICE), head.get(b"host")


def _shown(path: bytes) -> str:
    return path[:300].decode("latin-1")


def _climbs(path: bytes) -> bool:
    """Whether an instance that resolves dots may take a path for another one than was let through."""
    if b"." not in path and b"%" not in path:
        return False
    segments = re.split(r"[/\\]", unquote(path.decode("latin-1")))
    return "." in segments or ".." in segments


def _only(head: Head, *methods: bytes) -> None:
    if head.method not in methods:
        allowed = ", ".join(method.decode() for method in methods)
        raise HttpError(HTTPStatus.METHOD_NOT_ALLOWED, f"the only methods served here are: {allowed}", allowed)
