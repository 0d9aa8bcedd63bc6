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

from hetserve_router.access_log import AccessLog
from hetserve_router.addresses import Asked, service_of, target_of
from hetserve_router.exchange import JSON, ForwardedExchange, QueryExchange
from hetserve_router.inference import InferenceFacts
from hetserve_router.served import ServedService
from hetserve_services.facts import Key
from hetserve_shell.http.limits import BodyBudget, HttpError
from hetserve_shell.http.takers import Head, Replier, Taker

ANOTHER_LEADS: Final = "another replica of the router leads"


@dataclass(slots=True, eq=False)
class OwnAnswer:
    """What the router says itself."""

    status: int
    body: bytes
    limit: int = 0

    def take(self, _body: bytes | bytearray, reply: Replier) -> None:
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
    _about: bytes = field(init=False)

    def __post_init__(self) -> None:
        self._about = orjson.dumps(
            {"name": "hetserve", "version": version("hetserve"), "extensions": ["binary_tensor_data"]}
        )

    def asked(self, head: Head) -> Taker:
        """Who takes a request. Raises HttpError."""
        try:
            return self._taker(head)
        except HttpError as error:
            if error.status >= self.access_log.least:
                title = ""
                with suppress(HttpError):
                    title = "/".join(self._key(head))[:300]
                self.access_log.refused(head, error.status, title)
            raise

    def _taker(self, head: Head) -> Taker:
        target = target_of(head.path)
        asked = target.asked
        if asked is Asked.LIVE:
            return self._own(head, {"live": True})
        serves = self.serves()
        if asked is Asked.READY:
            ready = serves and not self.ending
            return self._own(head, {"ready": ready}, HTTPStatus.OK if ready else HTTPStatus.SERVICE_UNAVAILABLE)
        if asked is Asked.SERVER_METADATA:
            _only(head, b"GET", b"HEAD")
            return OwnAnswer(HTTPStatus.OK, self._about)
        if not serves:
            raise HttpError(HTTPStatus.SERVICE_UNAVAILABLE, ANOTHER_LEADS, retry_after=1, closes=True)
        self.asked_at = time.monotonic()
        service = self._service(head)
        if _climbs(head.path):
            raise HttpError(HTTPStatus.BAD_REQUEST, f"path {_shown(head.path)}: must have no segment . or ..")
        if asked is Asked.OTHER:
            return self._other(service, head)
        if target.model != service.model:
            raise HttpError(
                HTTPStatus.NOT_FOUND, f"model {target.model[:100]}: {service.title} serves model {service.model}"
            )
        if asked is Asked.INFER:
            return self._query(service, head)
        _only(head, b"GET", b"HEAD")
        instance = service.any_instance()
        if instance is None:
            raise HttpError(HTTPStatus.SERVICE_UNAVAILABLE, f"{service.title}: no instance is ready", retry_after=5)
        return ForwardedExchange(service, head, instance)

    def _key(self, head: Head) -> Key:
        return service_of(head.get(b"hetserve-service"), head.get(b"host"), self.namespaces, self.domain)

    def _service(self, head: Head) -> ServedService:
        key = self._key(head)
        service = self.services.get(key)
        if service is None:
            raise HttpError(
                HTTPStatus.NOT_FOUND,
                f"service {'/'.join(key)[:300]}: this router dispatches to no service of that name",
            )
        if service.spec.dispatch.ports.http is None:
            raise HttpError(
                HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
                f"{service.title}: is asked by gRPC only; set spec.dispatch.ports.http to serve HTTP",
            )
        return service

    @staticmethod
    def _own(head: Head, said: dict[str, bool], status: HTTPStatus = HTTPStatus.OK) -> Taker:
        _only(head, b"GET", b"HEAD")
        return OwnAnswer(status, orjson.dumps(said))

    def _query(self, service: ServedService, head: Head, facts: InferenceFacts | None = None) -> Taker:
        _only(head, b"POST")
        service.admit(head.length)
        if self.budget.used + (head.length or 0) > self.budget.limit:
            why = f"the queries of all services hold {self.budget.used} bytes; at most {self.budget.limit} may"
            raise service.refused(HTTPStatus.SERVICE_UNAVAILABLE, why)
        return QueryExchange(service, head, facts)

    def _other(self, service: ServedService, head: Head) -> Taker:
        path = head.path.decode("latin-1")
        for prefix in service.spec.dispatch.paths:
            if path == prefix or path.startswith(f"{prefix.rstrip('/')}/"):
                return self._query(service, head, InferenceFacts(1))
        raise HttpError(
            HTTPStatus.NOT_FOUND,
            f"path {_shown(head.path)}: is not served; there are /v2/models/{service.model}, its /infer and /ready,"
            " and what spec.dispatch.paths lists",
        )


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
