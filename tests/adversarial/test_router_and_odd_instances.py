"""What an instance may answer: each query ends once, in time, and its instance is asked again or found out."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest

from hetserve_router.instances import InstanceAddress
from router_scene import KEY, RouterScene, routing

OK = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"


@asynccontextmanager
async def answering(answer: bytes, *, whole: bool = True) -> AsyncIterator[RouterScene]:
    """A router whose one instance writes this to each query, and closes. whole: once it has read it."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        if whole:
            length = next(line for line in head.split(b"\r\n") if line.startswith(b"content-length: "))
            await reader.readexactly(int(length.removeprefix(b"content-length: ")))
        writer.write(answer)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with routing() as scene:
        scene.router.stand({KEY: [InstanceAddress("a", "a", "g4dn.xlarge", *server.sockets[0].getsockname()[:2])]})
        yield scene
        service = scene.router.services[KEY]
        assert service.held == (0, 0)
        assert not any(link.query for link in service._links.values())
        scene.router.stand({})  # else a probe may begin as the router ends, three seconds later
    server.close()


@pytest.mark.parametrize(
    ("answer", "body"),
    [
        pytest.param(OK + b"\r\n{}", b"{}", id="until the end"),
        pytest.param(OK + b"\r\n" + b"x" * 100_000, b"x" * 100_000, id="long, until the end"),
        pytest.param(b"HTTP/1.0 200 OK\r\n\r\n{}", b"{}", id="HTTP/1.0"),
        pytest.param(OK + b"transfer-encoding: chunked\r\n\r\n2;a=b\r\n{}\r\n0\r\nx: y\r\n\r\n", b"{}", id="chunks"),
        pytest.param(
            b"HTTP/1.1 102 P\r\n\r\nHTTP/1.1 103 E\r\n\r\n" + OK + b"content-length: 2\r\n\r\n{}", b"{}", id="1xx"
        ),
        pytest.param(OK + b"content-length: 2\r\n\r\n{}and more", b"{}", id="more than its length"),
        pytest.param(b"HTTP/1.1 204 N\r\n\r\n", b"", id="no body"),
    ],
)
async def test_a_whole_answer_is_passed_on_however_it_ends(answer: bytes, body: bytes) -> None:
    async with answering(answer) as scene:
        assert (await scene.ask()).content == body


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"HTT", id="part of a head"),
        pytest.param(OK + b"content-length: 3\r\n\r\n{}", id="less than its length"),
        pytest.param(OK + b"content-length: x\r\n\r\n{}", id="a length that is none"),
        pytest.param(OK + b"content-length: 2\r\ncontent-length: 3\r\n\r\n{}", id="two lengths"),
        pytest.param(OK + b"content-length: 99999999999999999999999\r\n\r\n{}", id="a length beyond"),
        pytest.param(OK + b"transfer-encoding: chunked\r\n\r\nzz\r\n", id="broken chunks"),
        pytest.param(b"HTTP/1.1 101 Switching\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n", id="another protocol"),
        pytest.param(b"\x16\x03\x01\x02\x00" * 9, id="TLS"),
        pytest.param(OK + b"x: " + b"y" * 200_000, id="a huge head"),
    ],
)
async def test_an_answer_that_is_none_is_a_failure_of_its_instance(answer: bytes) -> None:
    async with answering(answer) as scene:
        refused = await scene.ask()
        assert refused.status_code == 502
        assert "its instance failed" in refused.json()["error"]


async def test_a_long_answer_that_breaks_off_is_seen_to_be_broken() -> None:
    async with answering(OK + b"content-length: 200000\r\n\r\n" + b"x" * 100_000) as scene:
        with pytest.raises(httpx.RemoteProtocolError):
            await scene.ask()


async def test_an_answer_before_the_query_is_whole_is_its_answer() -> None:
    body = b'{"inputs":[{"name":"x","shape":[1],"data":[' + b"0," * 3_000_000 + b"0]}]}"
    early = b"HTTP/1.1 413 Too Large\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}"
    async with answering(early, whole=False) as scene:
        assert (await scene.ask(content=body)).status_code in (413, 502), "a reset may overtake it"
