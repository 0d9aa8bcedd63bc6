"""The probe port of a component: health, readiness, metrics and its own routes."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from http import HTTPStatus
from types import MappingProxyType
from typing import Any, Final

from prometheus_client import CONTENT_TYPE_LATEST

from hetserve_shell.http.handlers import Check, Guarded, Handler, PathRouter, Reply, Routes
from hetserve_shell.http.limits import ServerLimits
from hetserve_shell.http.server import HttpServer

LIMITS: Final = ServerLimits(body=64 * 1024, bodies=1024 * 1024, connections=256, backlog=64, unread=60.0)
NO_ROUTES: Final[Mapping[bytes, Handler]] = MappingProxyType({})


def probe_server(
    metrics: Callable[[], Coroutine[Any, Any, bytes]],
    not_ready: Callable[[], str],
    routes: Mapping[bytes, Handler] = NO_ROUTES,
    limits: ServerLimits = LIMITS,
    *,
    check: Check | None = None,
    not_alive: Callable[[], Coroutine[Any, Any, str]] | None = None,
) -> HttpServer:
    """Server of /healthz and /readyz for everybody, and of /metrics and `routes` for whom `check` lets through.

    metrics: text for Prometheus. not_ready: the reason; empty if ready. check: None: everybody. not_alive: the reason
    for /livez, which is for everybody; None: there is no such path.
    """

    async def show_metrics() -> Reply:
        return Reply((await metrics(),), CONTENT_TYPE_LATEST)

    health: dict[bytes, Handler] = {
        b"/healthz": lambda _body: Reply.text("ok"),
        b"/readyz": lambda _body: _unless(not_ready()),
    }
    if (asked := not_alive) is not None:

        async def livez() -> Reply:
            return _unless(await asked())

        health[b"/livez"] = lambda _body: livez()
    shown: dict[bytes, Handler] = {b"/metrics": lambda _body: show_metrics(), **routes}
    guarded: Routes = shown if check is None else {path: Guarded(handler, check) for path, handler in shown.items()}
    return HttpServer(PathRouter({**health, **guarded}, b"GET"), limits, "probes")


def _unless(why_not: str) -> Reply:
    return Reply.text(why_not, HTTPStatus.SERVICE_UNAVAILABLE) if why_not else Reply.text("ok")
