"""Whoever connects to a probe port takes no more of it than the guard allows, whichever library serves it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest
import uvloop

from hetserve_extender.main import Extender
from hetserve_extender.settings import LeaderElectionOptions, Settings
from hetserve_extender.testing import FakeApi
from hetserve_operator.metrics import Metrics
from hetserve_operator.probes import start_probes
from hetserve_shell import guard
from hetserve_shell.guard import Guard, GuardLimits
from http_clients import Client, until

LIMITS = GuardLimits(connections=8, waiting=0.3, answering=0.6, unanswered=4096)
ASK = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
HALF = b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-Long: "
ALONE = LeaderElectionOptions(enabled=False)


@dataclass
class Port:
    number: int
    clients: list[Client] = field(default_factory=list)

    async def connect(self, data: bytes = b"") -> Client:
        client = Client(*await asyncio.open_connection("127.0.0.1", self.number))
        self.clients.append(client)
        await client.send(data)
        return client

    async def healthy(self) -> bool:
        status, body, _ = await (await self.connect(ASK)).answer()
        return (status, body) == (200, b"ok\n")


@asynccontextmanager
async def extender() -> AsyncIterator[int]:
    process = Extender(Settings(host="127.0.0.1", port=0, probe_port=0, leader_election=ALONE), FakeApi())
    process.probes = Guard(LIMITS, "probes")
    stop = asyncio.Event()
    running = asyncio.create_task(process.run(stop))
    await until(lambda: "probes" in process.addresses)
    yield process.addresses["probes"][1]
    stop.set()
    await running


@asynccontextmanager
async def operator() -> AsyncIterator[int]:
    probes = await start_probes("127.0.0.1", 0, Metrics(), lambda: True, LIMITS)
    yield probes.addresses[0][1]
    await probes.stop()


@asynccontextmanager
async def silent() -> AsyncIterator[int]:
    """A server that takes everything and never answers."""
    guarded = Guard(LIMITS, "silent")
    listener = await asyncio.get_running_loop().create_server(
        lambda: guarded.over(asyncio.Protocol()), "127.0.0.1", 0
    )
    yield listener.sockets[0].getsockname()[1]
    listener.close()


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "TICK", 0.02)


def pytest_asyncio_loop_factories(item: pytest.Item) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


@asynccontextmanager
async def opened(serve: Callable[[], object]) -> AsyncIterator[Port]:
    async with serve() as number:  # type: ignore[attr-defined]
        port = Port(number)
        yield port
        for client in port.clients:
            client.writer.close()
        await asyncio.gather(*(client.writer.wait_closed() for client in port.clients), return_exceptions=True)
