"""Whoever connects to a probe port takes no more of it than the guard allows, whichever library serves it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass, field, replace

import pytest
import pytest_asyncio

from hetserve_extender.extender import Extender
from hetserve_extender.settings import LeaderElectionOptions, Settings
from hetserve_operator.metrics import OperatorMetrics
from hetserve_operator.probes import start_probes
from hetserve_shell.http import guard
from hetserve_shell.http.guard import Guard, GuardLimits
from hetserve_shell.testing.apiserver import FakeApiServer
from http_clients import Client, until

LIMITS = GuardLimits(connections=8, waiting=0.4, answering=1.6, unanswered=4096)
ASK = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
HALF = b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-Long: "


@dataclass
class Port:
    """A guarded port and the clients that a test connects to it."""

    number: int
    guard: Guard | None = None
    clients: list[Client] = field(default_factory=list)

    async def connect(self, data: bytes = b"") -> Client:
        client = Client(*await asyncio.open_connection("127.0.0.1", self.number))
        self.clients.append(client)
        await client.send(data)
        return client


@asynccontextmanager
async def _extender() -> AsyncIterator[Port]:
    alone = LeaderElectionOptions(enabled=False)
    process = Extender(Settings(host="127.0.0.1", port=0, probe_port=0, leader_election=alone), FakeApiServer())
    process.probes = Guard(LIMITS, "probes")
    stop = asyncio.Event()
    running = asyncio.create_task(process.run(stop))
    await until(lambda: "verbs" in process.addresses)
    yield Port(process.addresses["probes"][1])
    stop.set()
    await running


@asynccontextmanager
async def _operator() -> AsyncIterator[Port]:
    probes = await start_probes("127.0.0.1", 0, OperatorMetrics(), lambda: True, LIMITS)
    yield Port(probes.addresses[0][1])
    await probes.stop()


class _Silent(asyncio.Protocol):
    """Takes everything and never answers."""


class _Dripping(asyncio.Protocol):
    """Answers a byte at a time, for as long as it is connected."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._drip(transport)

    def _drip(self, transport: asyncio.BaseTransport) -> None:
        if not transport.is_closing():
            transport.write(b"x")  # type: ignore[attr-defined]
            asyncio.get_running_loop().call_later(LIMITS.waiting / 8, self._drip, transport)


class _Much(asyncio.Protocol):
    """Answers with more than a socket takes."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.write(bytes(32 << 20))  # type: ignore[attr-defined]


@asynccontextmanager
async def _served_by(served: type[asyncio.Protocol]) -> AsyncIterator[Port]:
    made = Guard(LIMITS, "probes")
    listener = await asyncio.get_running_loop().create_server(lambda: made.over(served()), "127.0.0.1", 0)
    yield Port(listener.sockets[0].getsockname()[1], made)
    listener.close()


@asynccontextmanager
async def _connected(server: AbstractAsyncContextManager[Port]) -> AsyncIterator[Port]:
    async with server as port:
        yield port
        for client in port.clients:
            client.writer.transport.abort()
            with suppress(OSError):
                await client.writer.wait_closed()


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "TICK", 0.02)


@pytest_asyncio.fixture(params=[_extender, _operator], ids=["extender", "operator"])
async def probes(request: pytest.FixtureRequest) -> AsyncIterator[Port]:
    async with _connected(request.param()) as port:
        yield port


@pytest_asyncio.fixture
async def silent() -> AsyncIterator[Port]:
    async with _connected(_served_by(_Silent)) as port:
        yield port


async def ended(client: Client) -> None:
    with suppress(ConnectionResetError):
        await client.closed()


@pytest.mark.parametrize("sent", [b"", HALF, ASK + HALF], ids=["nothing", "half a head", "half of a second request"])
async def test_a_client_that_stops_is_not_waited_for(probes: Port, sent: bytes) -> None:
    await ended(await probes.connect(sent))


async def test_a_head_that_comes_drop_by_drop_is_not_waited_for(probes: Port) -> None:
    client = await probes.connect(HALF)

    async def drip() -> None:
        while True:
            client.writer.write(b"x")
            await asyncio.sleep(0.01)

    dripping = asyncio.create_task(drip())
    await ended(client)
    dripping.cancel()


async def test_a_head_without_end_is_cut_off_before_its_time_is_over(silent: Port) -> None:
    assert silent.guard is not None
    silent.guard.limits = replace(LIMITS, waiting=60.0)
    await ended(await silent.connect(HALF + b"x" * LIMITS.unanswered))


async def test_half_requests_shut_nobody_out(probes: Port, caplog: pytest.LogCaptureFixture) -> None:
    flood = [await probes.connect(HALF) for _ in range(3 * LIMITS.connections)]
    status, body, _ = await (await probes.connect(ASK)).answer()
    assert (status, body) == (200, b"ok\n")
    for client in flood[: LIMITS.connections]:
        await ended(client)  # the oldest are those that went
    await until(lambda: "more than 8 connections" in caplog.text)


async def test_a_kept_connection_is_answered_again_and_outlives_half_requests(probes: Port) -> None:
    kept = await probes.connect(ASK)
    assert (await kept.answer())[0] == 200
    for _ in range(3 * LIMITS.connections):
        await probes.connect(HALF)
    await kept.send(ASK)
    assert (await kept.answer())[0] == 200


async def test_who_has_asked_is_waited_for_longer_and_not_for_ever(silent: Port) -> None:
    start = asyncio.get_running_loop().time()
    asked = await silent.connect(ASK[:-3])
    await asked.send(ASK[-3:])  # the end of the head, in two pieces
    await ended(await silent.connect(HALF))
    assert not asked.reader.at_eof()
    await ended(asked)
    assert asyncio.get_running_loop().time() - start > LIMITS.answering - 0.1


@pytest.mark.parametrize(
    "sent",
    [
        (b"\r\n\r\n",),
        (b"\n\n",),
        (b"\r\n\r\nGET / HT",),
        (b"\r\n", b"\r\n", b"\r\n"),
        (ASK[:-2], b"x"),
        (b"\r\n\r\n" + HALF,),
    ],
)
async def test_blank_lines_before_a_head_are_no_head(silent: Port, sent: tuple[bytes, ...]) -> None:
    start = asyncio.get_running_loop().time()
    client = await silent.connect()
    for piece in sent:
        await client.send(piece)
        await asyncio.sleep(0.02)
    assert silent.guard is not None
    assert [one.worth[0] for one in silent.guard.admission] == [False]
    await ended(client)
    assert asyncio.get_running_loop().time() - start < LIMITS.answering / 2


@pytest.mark.parametrize("blank", [b"\r\n", b"\r\n\r\n\r\n", b"\n\n"])
@pytest.mark.parametrize("size", [1, 3, 100])
async def test_a_head_after_blank_lines_is_a_head_however_it_comes(silent: Port, blank: bytes, size: int) -> None:
    client, data = await silent.connect(), blank + ASK
    for begin in range(0, len(data), size):
        assert silent.guard is not None
        assert not any(one.worth[0] for one in silent.guard.admission)
        await client.send(data[begin : begin + size])
        await asyncio.sleep(0.001)
    await until(lambda: silent.guard is not None and any(one.worth[0] for one in silent.guard.admission))


async def test_who_has_asked_stays_where_who_has_not_goes(silent: Port) -> None:
    asked = await silent.connect(ASK)
    for _ in range(3 * LIMITS.connections):
        await silent.connect(HALF)
    assert silent.guard is not None
    await until(lambda: silent.guard is not None and silent.guard.connections <= LIMITS.connections)
    assert not asked.reader.at_eof()


async def test_an_answer_that_goes_on_is_not_cut_off() -> None:
    async with _connected(_served_by(_Dripping)) as port:
        client = await port.connect()
        await asyncio.sleep(LIMITS.waiting * 1.5)
        assert not client.reader.at_eof()


async def test_nothing_is_left_to_do_when_nobody_is_connected(silent: Port, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    assert silent.guard is not None
    client = await silent.connect()
    await ended(client)
    await until(lambda: silent.guard is not None and silent.guard.idle)
    assert silent.guard.connections == 0


async def test_who_does_not_read_is_waited_for_longer_and_not_for_ever() -> None:
    async with _connected(_served_by(_Much)) as port:
        start = asyncio.get_running_loop().time()
        await port.connect()
        guarded = port.guard
        assert guarded is not None
        await until(lambda: guarded.connections == 1)
        await until(lambda: guarded.connections == 0)
        assert asyncio.get_running_loop().time() - start > LIMITS.answering - 0.1
