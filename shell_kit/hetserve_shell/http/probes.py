"""The probe port of a component: health, readiness, metrics and its own routes."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from http import HTTPStatus
from types import MappingProxyType
from typing import Any, Final

from prometheus_client import CONTENT_TYPE_LATEST

from hetserve_shell.http.limits import Check, Guarded, Handler, Limits, Reply, Routes
from hetserve_shell.http.server import HttpServer

LIMITS: Final = Limits(body=64 * 1024, bodies=1024 * 1024, connections=256, backlog=64, unread=60.0)
NO_ROUTES: Final[Mapping[bytes, Handler]] = MappingProxyType({})


def probe_server(
    metrics: Callable[[], Coroutine[Any, Any, bytes]],
    not_ready: Callable[[], str],
    routes: Mapping[bytes, Handler] = NO_ROUTES,
    limits: Limits = LIMITS,
    check: Check | None = None,
) -> HttpServer:
    """Server of /healthz and /readyz for everybody, and of /metrics and `routes` for whom `check` lets through.

    metrics: text for Prometheus. not_ready: the reason; empty if ready. check: None: everybody.
    """

    async def show_metrics() -> Reply:
        return Reply((await metrics(),), CONTENT_TYPE_LATEST)

    def readyz(_body: bytes) -> Reply:
        why = not_ready()
        return Reply.text(why, HTTPStatus.SERVICE_UNAVAILABLE) if why else Reply.text("ok")

    health: dict[bytes, Handler] = {b"/healthz": lambda _body: Reply.text("ok"), b"/readyz": readyz}
    shown: dict[bytes, Handler] = {b"/metrics": lambda _body: show_metrics(), **routes}
    guarded: Routes = shown if check is None else {path: Guarded(handler, check) for path, handler in shown.items()}
    return HttpServer({**health, **guarded}, limits, "probes", b"GET")
