"""The second port: health, readiness, metrics, the ledger and the placement log."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import uvicorn
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from hetserve.placement.placer import Placer
from hetserve_extender.observe.ledger_view import LedgerTexts
from hetserve_extender.observe.metrics import Metrics
from hetserve_extender.observe.placement_log import PlacementLog
from hetserve_shell.http.guard import BACKLOG, Guard

NOT_SYNCED: Final = "hetserve extender has not listed pods and nodes yet"


@dataclass(frozen=True, slots=True)
class Probes:
    """The answers. `placement_log` is None if none is kept."""

    placer: Placer
    metrics: Metrics
    ready: Callable[[], bool]
    placement_log: PlacementLog | None = None
    _texts: LedgerTexts = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_texts", LedgerTexts(self.placer))

    def app(self) -> Starlette:
        return Starlette(
            routes=[
                Route("/healthz", self.healthz),
                Route("/readyz", self.readyz),
                Route("/metrics", self.scrape),
                Route("/ledger", self.ledger),
                Route("/log", self.log),
            ]
        )

    async def healthz(self, _request: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def readyz(self, _request: Request) -> Response:
        if self.ready():
            return PlainTextResponse("ok\n")
        return PlainTextResponse(f"{NOT_SYNCED}\n", status_code=503)

    async def scrape(self, _request: Request) -> Response:
        return Response(await self.metrics.text(), media_type=CONTENT_TYPE_LATEST)

    async def ledger(self, _request: Request) -> Response:
        return _Blocks(await self._texts.text(), "application/json")

    async def log(self, _request: Request) -> Response:
        if self.placement_log is None:
            text = "no placement log is kept; the setting placementLog (such as 16Mi) makes one\n"
            return PlainTextResponse(text, status_code=404)
        return _Blocks(await self.placement_log.text(), "application/jsonl")


class _Blocks(Response):
    """A long text, sent block by block with turns for others: a socket takes megabytes without a pause.

    Starlette's own stream watches for the caller's leaving by a task group, whose import takes 15 ms.
    """

    def __init__(self, blocks: Sequence[bytes], media_type: str) -> None:
        super().__init__(headers={"content-length": str(sum(map(len, blocks)))}, media_type=media_type)
        self._blocks = blocks

    async def __call__(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        for block in self._blocks:
            await send({"type": "http.response.body", "body": block, "more_body": True})
            await asyncio.sleep(0)
        await send({"type": "http.response.body", "body": b""})


class ProbeServer(uvicorn.Server):
    """Serves the probes behind a guard; it leaves signals to the process, which has more to end than this server."""

    def __init__(self, probes: Probes, guard: Guard) -> None:
        super().__init__(_config(probes.app(), guard))

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _config(app: object, guard: Guard) -> uvicorn.Config:
    return uvicorn.Config(
        app,  # type: ignore[arg-type]
        http=lambda **given: guard.over(HttpToolsProtocol(**given)),  # type: ignore[arg-type]
        ws="none",  # an upgrade would leave the guard behind
        backlog=BACKLOG,
        log_config=None,
        access_log=False,
        lifespan="off",
        server_header=False,
        timeout_graceful_shutdown=3,
    )
