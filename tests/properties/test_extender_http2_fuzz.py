"""Whatever frames arrive, the server answers in whole frames, keeps nothing of them, and serves the next request."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any, Final

import pytest
import uvloop
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived, StreamEnded
from hpack import Encoder
from hyperframe.frame import (
    ContinuationFrame,
    DataFrame,
    Frame,
    GoAwayFrame,
    HeadersFrame,
    PingFrame,
    PriorityFrame,
    RstStreamFrame,
    SettingsFrame,
    WindowUpdateFrame,
)
from hypothesis import example, given, settings
from hypothesis import strategies as st

from effort import examples
from harness import limits
from hetserve_shell.http.handlers import PathRouter, Reply, Routes
from hetserve_shell.http.http2 import Http2Connection
from hetserve_shell.http.limits import HttpError, ServerLimits
from hetserve_shell.http.server import HttpServer
from http_clients import said, until

LIMITS: Final = ServerLimits(
    head=2048,
    body=20_000,
    bodies=30_000,
    connections=16,
    streams=4,
    answers=100_000,
    waiting=5.0,
    unread=0.1,
    lingering=0.05,
)
PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HEAD: Final = 9

ids = st.sampled_from([0, 1, 1, 3, 3, 5, 7, 9, 2, 2**31 - 1])
ends = st.sampled_from([(), ("END_STREAM",), ("END_HEADERS",), ("END_STREAM", "END_HEADERS")])
fields = st.sampled_from(
    [
        (b":method", b"POST"),
        (b":method", b"CONNECT"),
        (b":path", b"/echo"),
        (b":path", b"/wait"),
        (b":path", b"/many"),
        (b":path", b"/nowhere"),
        (b":scheme", b"https"),
        (b":authority", b"x"),
        (b":status", b"200"),
        (b"content-length", b"5"),
        (b"content-length", b"9" * 5000),
        (b"content-length", b"-1"),
        (b"expect", b"100-continue"),
        (b"expect", b"more"),
        (b"connection", b"close"),
        (b"X-Upper", b"y"),
        (b"x", b"y" * 3000),
    ]
)
GOOD: Final = [(b":method", b"POST"), (b":path", b"/echo"), (b":scheme", b"https"), (b":authority", b"x")]


def head(of: Sequence[tuple[bytes, bytes]]) -> bytes:
    return Encoder().encode(list(of))


heads = (
    st.just(head(GOOD))
    | st.sampled_from([b"/wait", b"/many"]).map(lambda path: head([GOOD[0], (b":path", path), *GOOD[2:]]))
    | st.lists(fields, max_size=8).map(head)
    | st.binary(max_size=20)
)
frames: st.SearchStrategy[Frame] = st.one_of(
    st.builds(lambda i, d, f: HeadersFrame(i, d, flags=f), ids.filter(bool), heads, ends),
    st.builds(
        lambda i, d, f: DataFrame(i, d, flags=f),
        ids.filter(bool),
        st.binary(max_size=300),
        st.sampled_from([(), ("END_STREAM",)]),
    ),
    st.builds(lambda i, d: ContinuationFrame(i, d, flags=("END_HEADERS",)), ids.filter(bool), heads),
    st.builds(RstStreamFrame, ids.filter(bool), st.integers(0, 13)),
    st.builds(WindowUpdateFrame, ids, st.sampled_from([1, 1000, 2**31 - 1])),
    st.builds(
        lambda values: SettingsFrame(0, values),
        st.dictionaries(st.integers(1, 9), st.sampled_from([0, 1, 100, 16384, 65535, 2**31 - 1]), max_size=3),
    ),
    st.builds(lambda data: PingFrame(0, data), st.binary(min_size=8, max_size=8)),
    st.builds(lambda i: PriorityFrame(i, depends_on=1), ids.filter(lambda one: one > 1)),
    st.builds(lambda last: GoAwayFrame(0, last_stream_id=last), st.integers(0, 9)),
)


streams = st.lists(frames.map(lambda frame: frame.serialize()) | st.binary(max_size=30), max_size=25)


@asynccontextmanager
async def serving() -> AsyncIterator[tuple[HttpServer, int]]:
    async def wait(body: bytes) -> bytes:
        await asyncio.sleep(0)
        return body

    def echo(body: bytes) -> bytes:
        if body.startswith(b"no"):
            raise HttpError(HTTPStatus.BAD_REQUEST, "no")
        return body

    routes: Routes = {
        b"/echo": echo,
        b"/wait": wait,
        b"/many": lambda _body: Reply([bytes(40_000)] * 2),
    }
    server = HttpServer(PathRouter(routes), LIMITS)
    listener = socket.create_server(("127.0.0.1", 0))
    await server.start(listener, Http2Connection)
    try:
        yield server, listener.getsockname()[1]
    finally:
        await server.stop(1.0)


async def answered(port: int) -> bytes:
    """The answer to a good request on a new connection."""
    h2 = H2Connection(H2Configuration(client_side=True))
    h2.initiate_connection()
    h2.send_headers(1, [*GOOD, (b"content-length", b"4")])
    h2.send_data(1, b"good", end_stream=True)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    body, ended = b"", False
    try:
        async with asyncio.timeout(limits.ANSWER):
            while not ended:
                writer.write(h2.data_to_send())
                for event in h2.receive_data(await reader.read(65536)):
                    body += event.data if isinstance(event, DataReceived) else b""
                    ended = ended or isinstance(event, StreamEnded)
    finally:
        writer.transport.abort()
    return body


def whole(data: bytes) -> bool:
    """Whether bytes are nothing but whole frames."""
    while len(data) >= HEAD:
        frame, size = Frame.parse_frame_header(memoryview(data[:HEAD]))
        frame.parse_body(memoryview(data[HEAD : HEAD + size]))
        data = data[HEAD + size :]
    return not data


async def attacked(parts: Sequence[bytes]) -> None:
    faults: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: faults.append(context))
    async with serving() as (server, port):
        assert whole(await said(port, parts)), "an answer was cut off"
        await until(lambda: not server.open)
        used = server.budget.used, server.unsent.used
        assert used == (0, 0), "memory of a request that is over is never given back"
        assert await answered(port) == b"good", "one client's nonsense costs the next its answer"
    assert faults == []


REQUEST: Final = HeadersFrame(1, head(GOOD), flags=("END_HEADERS",)).serialize()
NO_WINDOW: Final = SettingsFrame(0, {4: 0}).serialize()
HEADERS_OF_MANY: Final = head([GOOD[0], (b":path", b"/many"), *GOOD[2:]])
MANY: Final = HeadersFrame(1, HEADERS_OF_MANY, flags=("END_HEADERS", "END_STREAM")).serialize()

MANY_MORE: Final = HeadersFrame(3, HEADERS_OF_MANY, flags=("END_HEADERS", "END_STREAM")).serialize()
CONNECT: Final = HeadersFrame(
    1, head([(b":method", b"CONNECT"), GOOD[3]]), flags=("END_HEADERS", "END_STREAM")
).serialize()
NOWHERE: Final = HeadersFrame(
    1, head([GOOD[0], (b":path", b"/nowhere"), *GOOD[2:]]), flags=("END_HEADERS",)
).serialize()
LATER: Final = HeadersFrame(3, head(GOOD), flags=("END_HEADERS", "END_STREAM")).serialize()


@settings(deadline=None)
@given(content=streams, together=st.booleans())
@example(content=[REQUEST, RstStreamFrame(1, 8).serialize()], together=True)
@example(content=[REQUEST, DataFrame(1, b"no", flags=("END_STREAM",)).serialize()], together=True)
@example(content=[NO_WINDOW, MANY], together=True)
@example(content=[MANY, GoAwayFrame(0).serialize()], together=True)
@example(content=[MANY, REQUEST], together=False)
@example(content=[NO_WINDOW, MANY, MANY_MORE], together=True)
@example(content=[CONNECT], together=True)
@example(content=[NOWHERE, *[DataFrame(1, bytes(16384)).serialize()] * 5, LATER], together=True)
def test_any_frames_get_whole_answers_and_the_next_request_is_served(content: list[bytes], together: bool) -> None:
    start = PREFACE + SettingsFrame(0).serialize()
    parts = [start + b"".join(content)] if together else [start, *content]
    uvloop.run(attacked(parts))


@settings(deadline=None, max_examples=examples(20))
@given(noise=st.binary(max_size=200))
def test_any_bytes_instead_of_http2_end_the_connection(noise: bytes) -> None:
    uvloop.run(attacked([noise]))


@pytest.fixture(autouse=True)
def told(caplog: pytest.LogCaptureFixture) -> Any:
    """No handler fails, whatever was asked."""
    yield
    assert [one for one in caplog.records if one.levelno >= logging.ERROR] == []
