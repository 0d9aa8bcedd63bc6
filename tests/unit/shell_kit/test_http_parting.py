"""Connections that the server wants to end while it goes on: a client's next one may lead to somebody else."""

from __future__ import annotations

import asyncio

import pytest

from harness import limits
from http_clients import Client, Served, post


async def kept(served: Served) -> Client:
    """A connection that has served a request and waits for the next, as the scheduler's do."""
    client = await served.connect()
    await client.send(post("/echo", b"before"))
    assert "connection" not in (await client.answer())[2]
    return client


async def test_parting_closes_what_is_idle_and_the_next_connection_is_kept_again(served: Served) -> None:
    idle, silent = await kept(served), await served.connect()
    served.server.part()
    assert await idle.closed() == await silent.closed() == b""
    await kept(served)


async def test_parting_answers_what_is_under_way_and_what_still_comes_in_part(served: Served) -> None:
    busy, half = await kept(served), await kept(served)
    await busy.send(post("/wait", b"under way"))
    await asyncio.wait_for(served.waiting.wait(), limits.ANSWER)
    whole = post("/echo", b"half of it")
    await half.send(whole[:-4])
    served.server.part()
    await asyncio.sleep(0.1)  # longer than idle ones are given
    await half.send(whole[-4:])
    served.gate.set()
    for client, said in ((busy, b'"under way"'), (half, b'"half of it"')):
        status, body, headers = await client.answer()
        assert (status, body, headers["connection"]) == (200, said, "close")
        assert await client.closed() == b""


@pytest.mark.parametrize("turns", [0, 1, 3])
async def test_a_request_that_crosses_the_parting_gets_an_answer(served: Served, turns: int) -> None:
    """A POST that is cut off is not repeated by the scheduler's client: its pod would wait out a pause."""
    client = await kept(served)
    served.server.part()
    for _ in range(turns):
        await asyncio.sleep(0)
    await client.send(post("/echo", b"crossing"))
    status, body, headers = await client.answer()
    assert (status, body, headers["connection"]) == (200, b'"crossing"', "close")
    assert await client.closed() == b""
