"""What a client may do to a router: each attack ends in time and memory, and none reaches an instance."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from harness import limits
from http_clients import hurry
from router_scene import RouterScene, routing

HEAD = b"POST /v2/models/rm2/infer HTTP/1.1\r\nhost: rm2.default\r\n"
GOOD = b'{"inputs":[{"name":"x","shape":[2],"datatype":"FP32","data":[0,0]}]}'


@pytest_asyncio.fixture
async def scene() -> AsyncIterator[RouterScene]:
    """Small limits; a connection that does nothing ends within a second."""
    settings = {"body": 100_000, "bodies": 1 << 20, "connections": 16, "uploading": "100ms"}
    async with routing("a", settings=settings) as made:
        assert made.router.queries is not None
        hurry(made.router.queries)
        yield made
        # Whatever was done: who asks in order is served, and nothing is held.
        asking = made.ask()
        instance = made.instances["a"]
        held = await instance.next()
        assert held.head.get(b"host"), "the first query that an instance has got"
        held.answer()
        assert (await asking).status_code == 200
        assert not instance.got.qsize()
        assert made.router.services["default", "rm2"].held == (0, 0)
        assert made.router.queries.budget.used == 0


class Attacker:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def of(cls, scene: RouterScene) -> Attacker:
        return cls(*await asyncio.open_connection(*scene.router.addresses["queries"]))

    async def sends(self, *pieces: bytes) -> bytes:
        """All that comes back until the connection ends."""
        for piece in pieces:
            self._writer.write(piece)
            await asyncio.sleep(0)
        async with asyncio.timeout(limits.ANSWER):
            try:
                return await self._reader.read()
            except ConnectionError:
                return b""
            finally:
                self._writer.close()


def length_of(body: bytes) -> bytes:
    return b"content-length: %d\r\n\r\n" % len(body)


@pytest.mark.parametrize(
    ("pieces", "status"),
    [
        pytest.param([b""], b"", id="silent"),
        pytest.param([HEAD], b"408", id="half a head"),
        pytest.param([HEAD, b"content-length: 10\r\n\r\n", b"12345"], b"408", id="half a body"),
        pytest.param([HEAD, b"content-length: 50000\r\n\r\n", b"x" * 40_000], b"408", id="half a large body"),
        pytest.param([HEAD, b"x: ", b"y" * 100_000, b"\r\n\r\n"], b"431", id="huge head"),
        pytest.param([HEAD, b"content-length: 99999999\r\n\r\n"], b"413", id="huge body"),
        pytest.param([HEAD, b"content-length: 99999999999999999999999\r\n\r\n"], b"4", id="a length of 23 digits"),
        pytest.param([HEAD, b"content-length: 3\r\ncontent-length: 4\r\n\r\nabcd"], b"400", id="two lengths"),
        pytest.param(
            [HEAD, b"content-length: 3\r\ntransfer-encoding: chunked\r\n\r\n", b"3\r\nabc\r\n0\r\n\r\n"],
            b"400",
            id="length and chunks",
        ),
        pytest.param(
            [HEAD, b"transfer-encoding: chunked\r\n\r\n", b"ffffffffff\r\n", b"x" * 1000], b"4", id="a huge chunk"
        ),
        pytest.param([HEAD, b"expect: 100-continue\r\ncontent-length: 99999999\r\n\r\n"], b"413", id="asks before"),
        pytest.param([b"\x16\x03\x01\x02\x00" + b"\x01" * 500], b"400", id="TLS to a plain port"),
        pytest.param([b"POST /\x00 HTTP/1.1\r\n\r\n"], b"400", id="no HTTP"),
    ],
)
async def test_a_broken_request_ends_in_time(scene: RouterScene, pieces: list[bytes], status: bytes) -> None:
    answer = await (await Attacker.of(scene)).sends(*pieces)
    assert answer[9 : 9 + len(status)] == status, answer[:200]


@pytest.mark.parametrize(
    "path", ["/v1/ok/../unload", "/v1/ok/%2e%2E/unload", "/v1/ok/..%2funload", "/v1/ok/.%5c..%5cunload", "/v1/ok/.."]
)
async def test_a_path_does_not_climb_out_of_those_that_are_served(path: str) -> None:
    async with routing("a", paths=["/v1/ok"]) as scene:
        head = f"POST {path} HTTP/1.1\r\nhost: rm2.default\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
        answer = await (await Attacker.of(scene)).sends(head.encode())
        assert answer[9:12] == b"400"
        assert not scene.instances["a"].got.qsize()


async def test_a_timeout_of_thousands_of_digits_is_none(scene: RouterScene) -> None:
    asking = scene.ask(headers={"x-envoy-expected-rq-timeout-ms": "9" * 5000})
    (await scene.instances["a"].next()).answer()
    assert (await asking).status_code == 200


def deep(levels: int) -> bytes:
    return b'{"inputs":' + b"[" * levels + b"]" * levels + b"}"


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(deep(45_000), id="deep JSON"),
        pytest.param(b'{"inputs":[{"shape":[NaN]}]}', id="NaN"),
        pytest.param(b'{"inputs":[{"shape":[-5]}]}', id="negative"),
        pytest.param(b'{"inputs":[{"shape":[999999999]}]}', id="huge"),
        pytest.param(b'{"inputs":[{"shape":{"a":1}}]}', id="no list"),
        pytest.param(b'{"inputs":[{"shape":["2"]}]}', id="a text"),
        pytest.param(b'{"parameters":{"timeout":-1},"inputs":[{"shape":[1]}]}', id="negative timeout"),
        pytest.param(b"{}", id="no inputs"),
        pytest.param(b"\xff\xfe", id="no text"),
    ],
)
async def test_an_inference_that_is_none_names_its_field(scene: RouterScene, body: bytes) -> None:
    answer = await (await Attacker.of(scene)).sends(HEAD + b"connection: close\r\n" + length_of(body) + body)
    head, _, said = answer.partition(b"\r\n\r\n")
    assert head[9:12] == b"400"
    assert len(json.loads(said)["error"]) > 10


async def test_a_client_that_reads_nothing_is_dropped(scene: RouterScene) -> None:
    attacker = await Attacker.of(scene)
    attacker._writer.write(HEAD + length_of(GOOD) + GOOD)
    held = await scene.instances["a"].next()
    held.answer(200, b"x" * (32 << 20))
    service = scene.router.services["default", "rm2"]
    async with asyncio.timeout(limits.ANSWER):
        while service.held != (0, 0) or (scene.router.queries and scene.router.queries.open):  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    attacker._writer.close()


async def test_more_connections_than_allowed_shut_nobody_out(scene: RouterScene) -> None:
    attackers = [await Attacker.of(scene) for _ in range(40)]
    assert scene.router.queries is not None
    assert len(scene.router.queries.open) <= 16
    for attacker in attackers:
        attacker._writer.close()


async def test_bodies_beyond_the_limit_of_a_service_are_refused(scene: RouterScene) -> None:
    attackers = [await Attacker.of(scene) for _ in range(6)]
    for attacker in attackers[:-1]:
        attacker._writer.write(HEAD + b"content-length: 60000\r\n\r\n" + b"x")
    service = scene.router.services["default", "rm2"]
    async with asyncio.timeout(limits.ANSWER):
        while service.held[1] < 240_000:  # noqa: ASYNC110
            await asyncio.sleep(0)
    answer = await attackers[-1].sends(HEAD + b"content-length: 60000\r\n\r\n" + b"x" * 60_000)
    assert answer[9:12] == b"429"
    for attacker in attackers:
        attacker._writer.close()
