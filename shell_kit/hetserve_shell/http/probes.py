"""The probe port of a component: health, readiness, metrics and its own routes."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from http import HTTPStatus
from types import MappingProxyType
from typing import Any, Final

from prometheus_client import CONTENT_TYPE_LATEST

from hetserve_shell.http.limits import Handler, Limits, Reply, Routes
from hetserve_shell.http.server import HttpServer

LIMITS: Final = Limits(body=64 * 1024, bodies=1024 * 1024, connections=256, backlog=64, unread=60.0)
NO_ROUTES: Final[Mapping[bytes, Handler]] = MappingProxyType({})


def probe_server(
    metrics: Callable[[], Coroutine[Any, Any, bytes]],
    not_ready: Callable[[], str],
    routes: Routes = NO_ROUTES,
    limits: Limits = LIMITS,
) -> HttpServer:
    """Server of /healthz, /readyz, /metrics and `routes`.

    metrics: text for Prometheus. not_ready: the reason; empty if ready.
    """

    async def show_metrics() -> Reply:
        return Reply((await metrics(),), CONTENT_TYPE_LATEST)

    def readyz(_body: bytes) -> Reply:
        why = not_ready()
        return Reply.text(why, HTTPStatus.SERVICE_UNAVAILABLE) if why else Reply.text("ok")

    probes: Routes = {
        b"/healthz": lambda _body: Reply.text("ok"),
        b"/readyz": readyz,
        b"/metrics": lambda _body: show_metrics(),
    }
    return HttpServer({**probes, **routes}, limits, "probes", b"GET")
