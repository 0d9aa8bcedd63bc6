"""Health, readiness and metrics on the probe port."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from hetserve_operator.metrics import OperatorMetrics
from hetserve_shell.http.guard import BACKLOG, Guard, GuardLimits


@dataclass(frozen=True, slots=True)
class ProbeServer:
    """The running server of the probe port."""

    addresses: list[tuple[str, int]]
    _listener: asyncio.Server
    _runner: web.AppRunner

    async def stop(self) -> None:
        self._listener.close()
        await self._runner.cleanup()


async def start_probes(
    host: str, port: int, metrics: OperatorMetrics, ready: Callable[[], bool], limits: GuardLimits | None = None
) -> ProbeServer:
    """Starts the probe server. Raises OSError if the port is taken."""

    async def healthz(_: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def readyz(_: web.Request) -> web.Response:
        synced = ready()
        return web.Response(text="ok\n" if synced else "caches are not synced\n", status=200 if synced else 503)

    async def show_metrics(_: web.Request) -> web.Response:
        return web.Response(body=generate_latest(metrics.registry), headers={"Content-Type": CONTENT_TYPE_LATEST})

    app = web.Application()
    app.add_routes([web.get("/healthz", healthz), web.get("/readyz", readyz), web.get("/metrics", show_metrics)])
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    guard, serve = Guard(limits or GuardLimits(), "probes"), cast("web.Server", runner.server)
    listener = await asyncio.get_running_loop().create_server(
        lambda: guard.over(serve()), host, port, backlog=BACKLOG, reuse_address=True
    )
    return ProbeServer([listening.getsockname()[:2] for listening in listener.sockets], listener, runner)
