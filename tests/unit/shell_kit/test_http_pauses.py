"""Refusals that are said after a pause, what is held meanwhile, and who learns of what was refused on its way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
import pytest_asyncio

from harness import limits
from http_clients import LIMITS, Client, chunked, hurry, until
from http_takers import Reception, ask, receiving
from rpc_clients import RpcClient

SOON, NEVER = 0.01, 3600.0
CONNECTIONS = LIMITS.connections


@pytest_asyncio.fixture
async def reception(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Reception]:
    """Once all clients are gone nothing may be held, and nobody may have been told so twice."""
    monkeypatch.setattr("hetserve_shell.http.server.TICK", 0.02)
    async with receiving(replace(LIMITS, streams=8)) as made:
        yield made
    assert made.server.unsent.used == 0


async def by_streams(reception: Reception) -> RpcClient:
    client = RpcClient(*await asyncio.open_connection("127.0.0.1", reception.port))
    reception.clients.append(Client(client.reader, client.writer))
    await client.begin()
    return client


async def leave(reception: Reception, client: Client | RpcClient) -> None:
    client.writer.transport.abort()
    await until(lambda: not reception.server.open)


def busy(reception: Reception) -> list[bool]:
    """Whether connections are worth as much as those that are answered."""
    return sorted(connection.worth[0] for connection in reception.server.open)


@pytest.mark.parametrize("size", [10, 100_000])
async def test_whoever_took_a_request_that_is_refused_later_hears_no_more_and_its_body_is_dropped(
    reception: Reception, size: int
) -> None:
    reception.desk.pause = NEVER
    client = await reception.connect()
    await client.send(ask("POST", "/x", body=bytes(size)))
    guest, reply = await reception.guest()
    assert reception.server.budget.used == size
    reply.refuse(reception.desk.refusal())
    assert reception.server.budget.used == 0
    assert busy(reception) == [False]
    await leave(reception, client)
    reply.answer(200, [], b"")
    assert guest.left == 0


@pytest.mark.parametrize("size", [10, 100_000])
async def test_over_http2_too(reception: Reception, size: int) -> None:
    reception.desk.pause = NEVER
    client = await by_streams(reception)
    stream = await client.ask("/x", bytes(size))
    guest, reply = await reception.guest()
    reply.refuse(reception.desk.refusal())
    reply.answer(200, [], b"")
    assert reception.server.budget.used == 0
    assert (await client.call("/echo", b"more")).body == b"more", "other streams go on"
    client.reset(stream)
    (connection,) = reception.server.open
    await until(lambda: not connection.worth[0])
    await leave(reception, client)
    assert guest.left == 0


async def test_after_its_pause_a_refusal_is_said_before_what_was_asked_behind_it(reception: Reception) -> None:
    reception.desk.pause = SOON
    client = await reception.connect()
    await client.send(ask("POST", "/no", body=b"short") + ask("POST", "/echo", body=b"next"))
    status, _, headers = await client.answer()
    assert (status, headers["retry-after"]) == (429, "3")
    assert (await client.answer())[:2] == (200, b"next")


async def test_nobody_reads_a_long_body_while_its_refusal_waits(reception: Reception) -> None:
    reception.desk.pause = NEVER
    client = await reception.connect()
    await client.send(ask("POST", "/no", length=20_000_000))
    await until(lambda: any(not connection.transport.is_reading() for connection in reception.server.open))
    assert busy(reception) == [False]
    for connection in list(reception.server.open):
        connection.abort()
    assert await client.closed() == b""


async def test_the_refusal_of_a_long_body_is_the_last_answer(reception: Reception) -> None:
    reception.desk.pause = SOON
    client = await reception.connect()
    await client.send(ask("POST", "/no", body=bytes(100_000)))
    assert await client.refused() == (429, "the queue is full")


async def test_who_drains_says_what_is_paused(reception: Reception) -> None:
    reception.desk.pause = SOON
    client = await reception.connect()
    await client.send(ask("POST", "/no", "Expect: 100-continue", length=10))
    await until(lambda: reception.desk.refusals == 1)
    await reception.server.stop(limits.ANSWER)
    assert (await client.answer())[0] == 429


@pytest.mark.parametrize("whole", [False, True])
async def test_over_http2_a_refusal_comes_later_and_what_comes_meanwhile_is_not_kept(
    reception: Reception, whole: bool
) -> None:
    reception.desk.pause = SOON
    client = await by_streams(reception)
    stream = client.start("/no", ("content-length", "40000"))
    await client.send(stream, bytes(40_000), end=whole)
    answer = await client.answer(stream)
    assert (answer.status, answer.headers["retry-after"]) == (429, "3")
    assert reception.server.budget.used == 0
    assert (await client.call("/echo", b"more")).body == b"more"


async def test_a_connection_whose_refusal_waits_goes_before_those_that_are_answered(reception: Reception) -> None:
    reception.desk.pause = NEVER
    busy_ones = [await reception.connect() for _ in range(CONNECTIONS - 1)]
    for client in busy_ones:
        await client.send(ask("GET", "/x"))
    await until(lambda: len(reception.desk.guests) == CONNECTIONS - 1)
    flooding = await reception.connect()
    await flooding.send(ask("POST", "/no"))
    await until(lambda: len(reception.server.open) == CONNECTIONS)
    newest = await reception.connect()
    await newest.send(ask("POST", "/echo", body=b"me"))
    assert (await newest.answer())[1] == b"me"
    assert await flooding.closed() == b""


@pytest.mark.parametrize(
    ("data", "status"),
    [
        pytest.param(chunked("/x", bytes(100_000), bytes(60_000)), 413, id="too large"),
        pytest.param(ask("POST", "/x", length=151_000), 413, id="said to be too large"),
        pytest.param(ask("POST", "/x", length=10) + b"12345", 408, id="too slow"),
        pytest.param(chunked("/x", b"1234")[:-5], 408, id="too slow in chunks"),
    ],
)
async def test_who_took_a_request_learns_that_its_body_was_refused(
    reception: Reception, data: bytes, status: int
) -> None:
    hurry(reception.server)
    client = await reception.connect()
    await client.send(data)
    assert (await client.refused())[0] == status
    (guest,) = reception.desk.guests
    assert (guest.left, guest.head.refused) == (1, status)


async def test_who_took_a_request_learns_that_all_bodies_are_too_many(reception: Reception) -> None:
    for size in (150_000, 150_000, 100_000):
        client = await reception.connect()
        await client.send(ask("POST", "/x", body=bytes(size)))
        await until(lambda: len(reception.desk.guests) == len(reception.clients))
    assert (await client.refused())[0] == 503
    assert [guest.head.refused for guest in reception.desk.guests] == [0, 0, 503]


async def test_a_client_that_left_on_the_way_was_not_refused(reception: Reception) -> None:
    client = await reception.connect()
    await client.send(ask("POST", "/x", length=10) + b"12345")
    await until(lambda: bool(reception.desk.guests))
    await leave(reception, client)
    (guest,) = reception.desk.guests
    assert (guest.left, guest.head.refused) == (1, 0)


async def test_over_http2_who_took_a_request_learns_that_its_body_was_refused(reception: Reception) -> None:
    client = await by_streams(reception)
    stream = client.start("/x")
    await client.send(stream, bytes(150_001))
    assert (await client.answer(stream)).status == 413
    (guest,) = reception.desk.guests
    assert (guest.left, guest.head.refused) == (1, 413)


async def test_within_an_answer_nobody_hears_that_another_one_is_given_up(reception: Reception) -> None:
    """Who answers may be the same for both, and is not done with the first."""
    client = await by_streams(reception)
    client.takes = False
    reception.server.unsent.limit = 300_000
    for _ in range(2):
        await client.ask("/x")
    (longest, first), (_, second) = [await reception.guest(number) for number in range(2)]
    for reply in (first, second):
        reply.begin(200, [], None)
    first.write(bytes(250_000))
    second.write(bytes(250_000))
    assert longest.left == 0
    await asyncio.sleep(0)
    assert longest.left == 1


async def test_a_connection_whose_last_held_request_is_refused_later_is_read_on(reception: Reception) -> None:
    reception.desk.pause = SOON
    client = await reception.connect()
    await client.send(ask("POST", "/x", body=b"one"))
    _, reply = await reception.guest()
    await client.send(ask("POST", "/no", body=bytes(16_384)))
    await asyncio.sleep(SOON)
    reply.answer(200, [], b"")
    assert (await client.answer())[0] == 200
    assert (await client.answer())[0] == 429
    await client.send(ask("POST", "/echo", body=b"next"))
    assert (await client.answer())[1] == b"next"
