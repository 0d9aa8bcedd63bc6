"""An extender whole, over an API server in memory and a clock that only tests move."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

import httpx
import pytest
import pytest_asyncio
import uvloop

from hetserve.placement.placer import Placer
from hetserve.placement.sinks import NodeSink, PodSink
from hetserve.testing.cluster import gpu_node
from hetserve.units import Seconds
from hetserve_extender.app import NOT_SYNCED, Probes, Verbs
from hetserve_extender.bind import Binder
from hetserve_extender.http_limits import HttpError, Limits
from hetserve_extender.http_server import HttpServer
from hetserve_extender.metrics import Metrics
from hetserve_extender.testing import FakeApi
from http_clients import LIMITS, Served, until


def pytest_asyncio_loop_factories(item: pytest.Item) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Sockets on both loops: the process runs on uvloop, whose transports differ at the ends of a connection."""
    both = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
    return both if item.path.name.startswith("test_http_") else {"asyncio": asyncio.new_event_loop}


@dataclass
class Bench:
    """The parts under test; `show` plays what a watch would deliver by now."""

    api: FakeApi
    placer: Placer
    binder: Binder
    metrics: Metrics
    verbs: httpx.AsyncClient
    probes: httpx.AsyncClient
    clock: list[float]
    ready: list[bool] = field(default_factory=lambda: [True])

    def show(self) -> None:
        NodeSink(self.placer).replace(self.api.listing("/api/v1/nodes"))
        PodSink(self.placer).replace(self.api.listing("/api/v1/pods"))

    async def filter(self, pod: dict[str, Any], *names: str) -> dict[str, Any]:
        body = {"Pod": pod, "Nodes": None, "NodeNames": list(names or ("n0", "n1"))}
        answer = await self.verbs.post("/filter", json=body)
        assert answer.status_code == 200
        result: dict[str, Any] = answer.json()
        return result

    async def bind(self, pod: dict[str, Any], node: str) -> str:
        meta = pod["metadata"]
        body = {"PodName": meta["name"], "PodNamespace": meta["namespace"], "PodUID": meta["uid"], "Node": node}
        answer = await self.verbs.post("/bind", json=body)
        assert answer.status_code == 200
        return str(answer.json()["Error"])

    async def ledger(self) -> dict[str, Any]:
        result: dict[str, Any] = (await self.probes.get("/ledger")).json()
        return result


@pytest_asyncio.fixture
async def bench() -> AsyncIterator[Bench]:
    api, clock, ready = FakeApi(), [100.0], [True]
    for name in ("n0", "n1"):
        api.add(gpu_node(name))
    placer = Placer(clock=lambda: Seconds(clock[0]), hold=Seconds(30.0))
    metrics = Metrics(placer)
    binder = Binder(api, placer, on_error=lambda kind: metrics.bind_errors.labels(kind).inc())
    placer.on_expired = metrics.expired.inc
    verbs = Verbs(placer, binder, metrics, lambda: "" if ready[0] else NOT_SYNCED)
    server = HttpServer(verbs.routes(), Limits(body=100_000))
    listener = socket.create_server(("127.0.0.1", 0))
    base_url = "http://{}:{}".format(*listener.getsockname())
    await server.start(listener)
    probes = Probes(placer, metrics, lambda: ready[0]).app()
    transport = httpx.ASGITransport(app=probes)
    async with (
        httpx.AsyncClient(base_url=base_url, trust_env=False) as verbs_client,
        httpx.AsyncClient(transport=transport, base_url="http://probes") as probes_client,
    ):
        made = Bench(api, placer, binder, metrics, verbs_client, probes_client, clock, ready)
        made.show()
        yield made
        await asyncio.wait_for(binder.drain(1.0), 5.0)
    await server.stop(1.0)


@pytest_asyncio.fixture
async def served(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Served]:
    monkeypatch.setattr("hetserve_extender.http_server.TICK", 0.02)
    made: Served

    def echo(body: bytes) -> bytes:
        made.seen.append(body)
        return b'"' + body + b'"'

    async def wait(body: bytes) -> bytes:
        made.waiting.set()
        await made.gate.wait()
        return echo(body)

    def fail(body: bytes) -> bytes:
        raise RuntimeError("broken") if body else HttpError(HTTPStatus.BAD_REQUEST, "empty")

    def much(body: bytes) -> bytes:
        return bytes(8_000_000)

    server = HttpServer({b"/echo": echo, b"/wait": wait, b"/fail": fail, b"/much": much}, LIMITS)
    listener = socket.create_server(("127.0.0.1", 0))
    made = Served(server, listener.getsockname()[1])
    await server.start(listener)
    yield made
    made.gate.set()
    for client in made.clients:
        client.writer.transport.abort()
    await server.stop(1.0)
    await until(lambda: not server.connections)
    assert server.budget.used == 0, "bytes of requests that are gone still count"
