"""Clients that stop, drip, never read or come in numbers: none of them costs the others their answers."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from harness import limits
from http_clients import IDLE, LIMITS, Client, Served, chunked, hurry, post, until

SLOW = [
    pytest.param(b"", b"", id="says nothing"),
    pytest.param(b"POST /echo HTTP/1.1\r\nHost: ", b"408", id="stops in the head"),
    pytest.param(post("/echo", b"x" * 100)[:-1], b"408", id="stops before the last byte"),
    pytest.param(chunked("/echo", b"x", end=b""), b"408", id="stops between chunks"),
]


@pytest.mark.parametrize(("sent", "status"), SLOW)
async def test_a_client_that_stops_is_not_waited_for(served: Served, sent: bytes, status: bytes) -> None:
    hurry(served.server)
    client = await served.connect()
    await client.send(sent)
    said = await client.closed()
    assert said[9:12] == status


async def test_a_slow_loris_is_cut_off_though_it_never_stops(served: Served) -> None:
    hurry(served.server)
    client = await served.connect()
    sender = asyncio.create_task(_drip(client, b"POST /echo HTTP/1.1\r\nHost: extender\r\nX: " + b"x" * 10_000))
    assert (await client.closed())[9:12] == b"408"
    assert not sender.done(), "it was heard to its end"
    sender.cancel()


async def _drip(client: Client, data: bytes) -> None:
    for byte in data:
        client.writer.write(bytes([byte]))
        await asyncio.sleep(0.01)


async def test_an_idle_connection_is_kept_for_a_while_and_no_longer(served: Served) -> None:
    hurry(served.server)
    client = await served.connect()
    await client.send(post("/echo", b"x"))
    await client.answer()
    start = asyncio.get_running_loop().time()
    assert await client.closed() == b""
    assert asyncio.get_running_loop().time() - start > IDLE / 2


@pytest.mark.parametrize("size", [100, 70_000])
async def test_a_header_or_a_trailer_without_end_is_refused_before_it_costs_memory(served: Served, size: int) -> None:
    for begin in (
        b"POST /echo HTTP/1.1\r\nX: ",
        chunked("/echo", b"x", end=b"0\r\nX: "),
        chunked("/echo")[:-5] + b"1;",
    ):
        client = await served.connect()
        await client.send(begin)
        for _ in range(0, 70_000, size):
            with suppress(ConnectionError):
                await client.send(b"x" * size)
        assert (await client.refused())[0] == 431


async def test_a_client_that_does_not_read_its_answers_is_cut_off_and_holds_little(served: Served) -> None:
    hurry(served.server)
    client = await served.connect()
    client.writer.transport.pause_reading()  # type: ignore[attr-defined]
    await client.send(post("/much", b"") * 500)
    await until(lambda: len(served.server.open) == 0)


async def test_at_the_limit_the_connection_worth_least_makes_room(served: Served) -> None:
    clients = []
    for _ in range(LIMITS.connections + 3):
        client = await served.connect()
        await client.send(post("/echo", b"x"))
        assert (await client.answer())[0] == 200, "idle connections shut the scheduler out"
        clients.append(client)
        await asyncio.sleep(0.03)
    assert len(served.server.open) <= LIMITS.connections
    assert await clients[0].closed() == b""


async def test_silent_connections_push_out_neither_the_scheduler_nor_a_bind_under_way(served: Served) -> None:
    binding, scheduler = await served.connect(), await served.connect()
    await binding.send(post("/wait", b"bind"))
    await asyncio.wait_for(served.waiting.wait(), limits.ANSWER)
    await scheduler.send(post("/echo", b"x"))
    await scheduler.answer()
    for _ in range(2 * LIMITS.connections):
        await (await served.connect()).send(b"POST")
    await asyncio.sleep(0.05)
    await scheduler.send(post("/echo", b"again"))
    assert (await scheduler.answer())[1] == b'"again"', "whoever opens connections cuts the scheduler off"
    served.gate.set()
    assert (await binding.answer())[1] == b'"bind"', "the scheduler is not told of a bind that happened"


async def test_many_large_requests_at_once_are_refused_and_not_kept(served: Served) -> None:
    hurry(served.server)
    clients = [await served.connect() for _ in range(4)]
    for client in clients[:3]:
        await client.send(post("/echo", bytes(149_000))[:-1])
    await clients[3].send(post("/echo", b"small"))
    statuses = {(await client.answer())[0] for client in clients}
    assert {200, 503} <= statuses
    assert served.server.budget.used <= LIMITS.bodies
