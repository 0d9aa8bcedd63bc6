"""Health, readiness and metrics on the probe port."""

from __future__ import annotations

from collections.abc import Callable

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from hetserve_operator.metrics import Metrics


async def start_probes(host: str, port: int, metrics: Metrics, ready: Callable[[], bool]) -> web.AppRunner:
    """Serve until the runner is cleaned up. Raises OSError where the port is taken."""

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
    await web.TCPSite(runner, host, port).start()
    return runner
