"""What a client of gRPC may do to a router: each attack ends in time and memory, and none reaches an instance."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager

import pytest
import pytest_asyncio
from h2.settings import SettingCodes

from harness import limits
from hetserve_shell.http.grpc import MOST_FIELDS, field, framed, varint
from http_clients import hurry
from router_scene import KEY, RouterScene, routing
from rpc_clients import RpcClient, message, message_of, rpc_client, status_of

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SETTINGS = bytes(3) + b"\4\0" + bytes(4)
GOOD = message("rm2", 2)


@pytest_asyncio.fixture
async def scene() -> AsyncIterator[RouterScene]:
    """Small limits; a connection that does nothing ends within a second."""
    settings = {"body": 100_000, "bodies": 1 << 20, "connections": 16, "uploading": "100ms"}
    async with routing("a", settings=settings) as made:
        assert made.router.queries is not None
        hurry(made.router.queries)
        yield made
        # Whatever was done: who asks in order is served, and nothing is held.
        async with attacker_of(made) as client:
            stream = await client.start_call("ModelInfer", GOOD)
            (await made.instances["a"].next()).answer()
            message_of(await client.answer(stream))
        assert not made.instances["a"].got.qsize(), "the only query that an instance has got"
        async with asyncio.timeout(limits.ANSWER):
            while made.router.queries.open:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        assert made.router.services[KEY].held == (0, 0)
        assert (made.router.queries.budget.used, made.router.queries.unsent.used) == (0, 0)


def attacker_of(scene: RouterScene) -> AbstractAsyncContextManager[RpcClient]:
    return rpc_client(*scene.router.addresses["queries"])


async def ended(scene: RouterScene, *pieces: bytes) -> bytes:
    """All that comes back until the router ends the connection."""
    reader, writer = await asyncio.open_connection(*scene.router.addresses["queries"])
    try:
        async with asyncio.timeout(limits.ANSWER):
            for piece in pieces:
                writer.write(piece)
                await asyncio.sleep(0)
            return await reader.read()
    except ConnectionError:
        return b""
    finally:
        writer.transport.abort()


@pytest.mark.parametrize(
    "pieces",
    [
        pytest.param([PREFACE[:10]], id="half a preface"),
        pytest.param([PREFACE], id="silent behind its preface"),
        pytest.param([PREFACE[:-2] + b"xx", SETTINGS], id="a wrong preface"),
        pytest.param([PREFACE, SETTINGS, b"\0\0\x40\1\4\0\0\0\1abc"], id="half a frame"),
        pytest.param([PREFACE, SETTINGS, b"\xff\xff\xff\0\0\0\0\0\1"], id="a huge frame"),
        pytest.param(
            [PREFACE, SETTINGS, b"\0\0\0\1\0\0\0\0\1", b"\0\x40\0\x09\0\0\0\0\1" + bytes(16384)] * 20, id="no end"
        ),
        pytest.param([PREFACE, SETTINGS, b"\0\0\5\0\1\0\0\0\1" + bytes(5)], id="data before a head"),
        pytest.param([PREFACE, SETTINGS, b"\0\0\1\1\5\0\0\0\1\xff"], id="a head that is none"),
        pytest.param([PREFACE, SETTINGS, *[b"\0\0\x08\6\0" + bytes(12)] * 6000], id="a flood of pings"),
    ],
)
async def test_a_broken_connection_ends_in_time(scene: RouterScene, pieces: list[bytes]) -> None:
    await ended(scene, *pieces)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        pytest.param(b"", 3, id="no message"),
        pytest.param(b"\0\0\0", 3, id="half a prefix"),
        pytest.param(framed(bytes(100))[:-1], 3, id="half a message"),
        pytest.param(GOOD + b"x", 8, id="more than a message"),
        pytest.param(b"\0\xff\xff\xff\xff" + bytes(100), 8, id="a huge length"),
        pytest.param(framed(bytes(100_001))[:1000], 8, id="a byte too large"),
        pytest.param(framed(b"\x0a\xff\xff\xff\xff\x0f"), 3, id="a field longer than all"),
        pytest.param(framed(b"\xff" * 20), 3, id="an endless integer"),
        pytest.param(framed(b"\x0b"), 3, id="a group"),
        pytest.param(framed(field(1, 1) * (MOST_FIELDS + 1)), 3, id="very many fields"),
        pytest.param(framed(field(1, "rm2") + field(5, field(3, b"\xff" * 12))), 3, id="an endless shape"),
        pytest.param(framed(field(1, "rm2") + field(5, field(3, varint(-1)))), 3, id="a negative shape"),
        pytest.param(framed(field(1, "rm2") + field(5, field(3, varint(1 << 62)))), 3, id="a huge shape"),
        pytest.param(framed(field(1, b"\xff\xfe") + field(5, b"")), 3, id="a name that is no text"),
        pytest.param(message("rm2", 1, timeout=-1), 3, id="a negative timeout"),
        pytest.param(message("rm2", 1, timeout="soon"), 3, id="a text as timeout"),
    ],
)
async def test_a_message_that_is_none_is_refused(scene: RouterScene, body: bytes, code: int) -> None:
    async with attacker_of(scene) as client:
        stream = client.begin_call("ModelInfer")
        for at in range(0, len(body), 16_384):
            client.h2.send_data(stream, body[at : at + 16_384])
        client.h2.end_stream(stream)
        client.flush()
        found, said = status_of(await client.answer(stream))
        assert (found, len(said) > 10) == (code, True), said


async def test_metadata_that_is_too_large_ends_its_connection(scene: RouterScene) -> None:
    async with attacker_of(scene) as client:
        client.begin_call("ModelInfer", *((f"x-{number}", "y" * 1000) for number in range(100)))
        client.flush()
        await client.until_closed()


async def test_a_message_that_stops_is_refused_in_time(scene: RouterScene) -> None:
    async with attacker_of(scene) as client:
        for size in (3, 8):
            stream = client.begin_call("ModelInfer")
            client.h2.send_data(stream, GOOD[:size])
            client.flush()
            assert status_of(await client.answer(stream))[0] == 4


async def test_more_streams_than_allowed_end_their_connection(scene: RouterScene) -> None:
    async with attacker_of(scene) as client:
        client.h2.remote_settings[SettingCodes.MAX_CONCURRENT_STREAMS] = 1 << 30
        client.h2.remote_settings.acknowledge()
        for _ in range(400):
            client.begin_call("ModelInfer")
        client.flush()
        await client.until_closed()


async def test_streams_that_are_reset_at_once_leave_nothing(scene: RouterScene) -> None:
    async with attacker_of(scene) as client:
        for _ in range(200):
            stream = client.begin_call("ModelInfer")
            client.h2.send_data(stream, GOOD[:10])
            client.h2.reset_stream(stream, 8)
        client.flush()
        assert (await client.rpc("ServerLive", framed(b""))).body


@pytest.mark.parametrize("size", [100, 2_000_000])
async def test_a_client_that_opens_no_window_is_given_up(scene: RouterScene, size: int) -> None:
    async with attacker_of(scene) as client:
        client.takes = False
        client.h2.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: 0})
        client.flush()
        stream = await client.start_call("ModelInfer", GOOD)
        (await scene.instances["a"].next()).answer(body=bytes(size))
        assert (await client.answer(stream)).reset is not None


async def test_messages_beyond_the_limit_of_a_service_are_refused(scene: RouterScene) -> None:
    async with attacker_of(scene) as client:
        for _ in range(3):
            stream = client.begin_call("ModelInfer")
            client.h2.send_data(stream, b"\0" + (90_000).to_bytes(4, "big"))
        client.flush()
        code, said = status_of(await client.answer(stream))
        assert (code, "hold" in said) == (8, True), said


async def test_who_says_grpc_over_http1_is_told_what_paths_there_are(scene: RouterScene) -> None:
    path = "/inference.GRPCInferenceService/ModelInfer"
    answer = await scene.client.post(path, headers={"host": "rm2.default", "content-type": "application/grpc"})
    assert answer.status_code == 404
