"""Requests by calls, against servers that answer in every way, refuse, reset and close."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import pytest

from harness import limits
from hetserve.base.failures import Failure
from hetserve_shell.http import calls
from hetserve_shell.http.calls import Call, ClientConnection, Upstream
from hetserve_shell.http.takers import Headers
from http_clients import until

Answering = Callable[[int, asyncio.StreamReader, asyncio.StreamWriter], Coroutine[Any, Any, None]]
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
INTERIM = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
UPGRADE = b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n"
HALF = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n"


@dataclass
class Heard:
    """What a listener was told."""

    status: int = 0
    headers: Headers = ()
    body: bytes = b""
    ended: bool = False
    failure: Failure | None = None
    reason: str = ""
    over: asyncio.Event = field(default_factory=asyncio.Event)
    call: Call | None = None

    def on_head(self, status: int, headers: Headers) -> None:
        assert not self.status, "two heads"
        self.status, self.headers = status, headers

    def on_piece(self, piece: bytes) -> None:
        assert self.status
        self.body += piece

    def on_end(self, _trailers: Headers = ()) -> None:
        assert not self.over.is_set(), "two ends"
        self.ended = True
        self.over.set()

    def on_failed(self, failure: Failure, reason: str) -> None:
        assert not self.over.is_set(), "two ends"
        self.failure, self.reason = failure, reason
        self.over.set()


@dataclass
class Peer:
    """A server that runs `answer` for every connection, with its number."""

    upstream: Upstream[bytes]
    connections: int = 0

    def ask(self, method: str = "POST", body: bytes = b"body") -> Heard:
        heard = Heard()
        head = f"{method} / HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode()
        heard.call = self.upstream.send(head, body, heard)
        return heard

    async def told(self, method: str = "POST", body: bytes = b"body") -> Heard:
        heard = self.ask(method, body)
        await asyncio.wait_for(heard.over.wait(), limits.ANSWER)
        return heard


@asynccontextmanager
async def peer(answer: Answering) -> AsyncIterator[Peer]:
    tasks = set[asyncio.Task[None] | None]()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        made.connections += 1
        tasks.add(asyncio.current_task())
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            await answer(made.connections - 1, reader, writer)
        writer.transport.abort()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    made = Peer(Upstream(*server.sockets[0].getsockname(), connects=ClientConnection))
    try:
        yield made
    finally:
        made.upstream.close()
        server.close()
        await asyncio.wait([task for task in tasks if task] or [asyncio.create_task(asyncio.sleep(0))])


async def request_of(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    return await reader.readexactly(int(head.split(b"Content-Length: ")[1].split(b"\r\n")[0]))


def saying(*answers: bytes) -> Answering:
    """Answers each request of a connection with the next of these, then closes."""

    async def answer(_number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for said in answers:
            await request_of(reader)
            writer.write(said)
        await writer.drain()
        writer.close()
        await writer.wait_closed()

    return answer


async def test_requests_in_a_row_share_a_connection_and_those_beside_each_other_do_not() -> None:
    async def echo(_number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            body = await request_of(reader)
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nX-Y: z\r\n\r\n%b" % (len(body), body))

    async with peer(echo) as served:
        for size in (0, 1, 16 * 1024, 16 * 1024 + 1, 500_000):
            heard = await served.told(body=b"x" * size)
            assert (heard.status, heard.body, heard.ended) == (200, b"x" * size, True)
            assert heard.headers == [(b"content-length", b"%d" % size), (b"x-y", b"z")]
        assert served.connections == 1
        together = [served.ask(body=str(number).encode()) for number in range(3)]
        for heard in together:
            await asyncio.wait_for(heard.over.wait(), limits.ANSWER)
        assert [heard.body for heard in together] == [b"0", b"1", b"2"]
        assert served.connections == 3


async def test_a_connection_that_was_idle_for_long_is_not_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "KEPT_FOR", 0.05)
    async with peer(saying(OK, OK)) as served:
        await served.told()
        await asyncio.sleep(0.1)
        assert (await served.told()).ended
        assert served.connections == 2


@pytest.mark.parametrize(
    ("method", "said", "status", "body"),
    [
        pytest.param("GET", b"HTTP/1.1 204 No Content\r\n\r\n", 204, b"", id="204"),
        pytest.param("GET", b"HTTP/1.1 304 Not Modified\r\nContent-Length: 7\r\n\r\n", 304, b"", id="304"),
        pytest.param("HEAD", b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n", 200, b"", id="HEAD"),
        pytest.param(
            "GET",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\no\r\n1;x=y\r\nk\r\n0\r\nX: y\r\n\r\n",
            200,
            b"ok",
            id="chunks",
        ),
        pytest.param(
            "GET",
            INTERIM + OK,
            200,
            b"ok",
            id="1xx",
        ),
        pytest.param("GET", b"HTTP/1.1 500 Oh\r\nContent-Length: 2\r\n\r\noh", 500, b"oh", id="an error"),
    ],
)
async def test_every_form_of_answer_ends_where_it_ends_and_its_connection_is_kept(
    method: str, said: bytes, status: int, body: bytes
) -> None:
    async def in_bytes(_number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(2):
            await request_of(reader)
            for at in range(len(said)):
                writer.write(said[at : at + 1])
                await asyncio.sleep(0)
        await reader.read()

    for answer in (in_bytes, saying(said, said)):
        async with peer(answer) as served:
            for _ in range(2):
                heard = await served.told(method)
                assert (heard.status, heard.body, heard.ended) == (status, body, True)
            assert served.connections == 1


@pytest.mark.parametrize(
    ("said", "body"),
    [
        pytest.param(b"HTTP/1.1 200 OK\r\n\r\nto the end", b"to the end", id="no length"),
        pytest.param(b"HTTP/1.0 200 OK\r\n\r\n", b"", id="no length, no body"),
        pytest.param(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok", b"ok", id="says close"),
        pytest.param(OK + b"HTTP/1.1 200", b"ok", id="says more than was asked"),
        pytest.param(OK + b"nonsense", b"ok", id="says nonsense afterwards"),
    ],
)
async def test_after_an_answer_that_ends_its_connection_another_one_is_used(said: bytes, body: bytes) -> None:
    async with peer(saying(said)) as served:
        for number in (1, 2):
            heard = await served.told()
            assert (heard.status, heard.body, heard.ended) == (200, body, True)
            assert served.connections == number


@pytest.mark.parametrize("more", [b"HTTP/1.1 200", b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"])
async def test_a_connection_on_which_more_came_than_was_asked_is_not_kept(more: bytes) -> None:
    async def too_much(_number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request_of(reader)
        writer.write(OK + more)
        await reader.read()

    async with peer(too_much) as served:
        for number in (1, 2):
            assert (await served.told()).body == b"ok"
            assert served.connections == number


@pytest.mark.parametrize("begin", [b"HTTP/1.1 200 OK\r\nX: ", HALF + b"0\r\nX: ", HALF + b"1;"])
async def test_a_head_or_a_trailer_without_end_is_not_read_on(begin: bytes) -> None:
    async def endless(_number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request_of(reader)
        writer.write(begin)
        for _ in range(20):
            writer.write(b"x" * 10_000)
            await asyncio.sleep(0.001)
        await reader.read()

    async with peer(endless) as served:
        heard = await served.told()
        assert (heard.failure, "larger than" in heard.reason) == (Failure.LOST, True)


async def test_what_a_server_says_unasked_is_the_answer_to_nothing() -> None:
    async def unasked(_number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request_of(reader)
        writer.write(OK)
        await writer.drain()
        await asyncio.sleep(0.05)
        writer.write(b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n")
        await reader.read()

    async with peer(unasked) as served:
        await served.told()
        await asyncio.sleep(0.15)
        assert (await served.told()).status == 200
        assert served.connections == 2


async def test_a_request_that_no_server_hears_was_not_sent() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    heard = await Peer(Upstream("127.0.0.1", port, connects=ClientConnection)).told()
    assert heard.failure is Failure.NOT_SENT
    assert "refused" in heard.reason.lower() or "connect" in heard.reason.lower()


async def test_who_does_not_connect_in_time_was_not_sent_to() -> None:
    with socket.socket() as silent:  # a full backlog answers nobody
        silent.bind(("127.0.0.1", 0))
        silent.listen(0)
        fill = [socket.socket() for _ in range(4)]
        for one in fill:
            one.setblocking(False)
            one.connect_ex(silent.getsockname())
        heard = await Peer(Upstream(*silent.getsockname(), connects=ClientConnection, connect_within=0.1)).told()
        assert (heard.failure, "0.1 s" in heard.reason) == (Failure.NOT_SENT, True)
        for one in fill:
            one.close()


def _reset(writer: asyncio.StreamWriter) -> None:
    sock = writer.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


@pytest.mark.parametrize("reset", [False, True])
@pytest.mark.parametrize(
    ("before", "said", "failure"),
    [
        pytest.param(0, b"", Failure.LOST, id="at once, newly connected"),
        pytest.param(1, b"", Failure.CLOSED_UNANSWERED, id="a kept connection, unanswered"),
        pytest.param(0, b"H", Failure.LOST, id="after a byte"),
        pytest.param(1, b"H", Failure.LOST, id="a kept connection, after a byte"),
        pytest.param(1, OK[:-1], Failure.LOST, id="before the last byte"),
        pytest.param(1, b"HTTP/1.1 100 Continue\r\n\r\n", Failure.LOST, id="after an interim answer"),
        pytest.param(1, HALF, Failure.LOST, id="in chunks"),
        pytest.param(0, b"nonsense\r\n\r\n", Failure.LOST, id="nonsense"),
        pytest.param(0, UPGRADE, Failure.LOST, id="upgrade"),
        pytest.param(0, b"HTTP/1.1 200 OK\r\nX: " + b"x" * 200_000, Failure.LOST, id="an endless head"),
        pytest.param(
            0,
            b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            Failure.LOST,
            id="length and chunks",
        ),
    ],
)
async def test_a_request_that_ends_without_its_answer_says_whether_it_can_have_been_heard(
    before: int, said: bytes, failure: Failure, reset: bool
) -> None:
    async def end(_number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(before):
            await request_of(reader)
            writer.write(OK)
        await request_of(reader)
        writer.write(said)
        await writer.drain()
        if reset:
            await asyncio.sleep(0.02)
            _reset(writer)
        else:
            writer.close()

    async with peer(end) as served:
        for _ in range(before):
            assert (await served.told()).ended
        heard = await served.told()
        assert (heard.failure, heard.ended) == (failure, False)
        assert heard.reason


async def test_an_answer_without_a_length_that_is_reset_is_not_whole() -> None:
    async def end(_number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request_of(reader)
        writer.write(b"HTTP/1.1 200 OK\r\n\r\nhalf")
        await writer.drain()
        await asyncio.sleep(0.02)
        _reset(writer)

    async with peer(end) as served:
        assert (await served.told()).failure is Failure.LOST


async def test_a_server_that_answers_before_it_has_read_all_is_not_asked_again_on_that_connection() -> None:
    async def early(_number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(OK)
        await asyncio.sleep(0.1)

    async with peer(early) as served:
        for number in (1, 2):
            assert (await served.told(body=bytes(20_000_000))).body == b"ok"
            assert served.connections == number


@pytest.mark.parametrize("when", ["connecting", "unanswered", "in a piece"])
async def test_a_call_that_is_cancelled_closes_its_connection_and_is_heard_of_no_more(when: str) -> None:
    ended = asyncio.Event()

    async def hold(_number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await request_of(reader)
            if when == "in a piece":
                writer.write(OK)
            await reader.read()
        finally:
            ended.set()

    class Cancels(Heard):
        def on_piece(self, piece: bytes) -> None:
            super().on_piece(piece)
            assert self.call is not None
            self.call.cancel()

    async with peer(hold) as served:
        heard = Cancels()
        heard.call = served.upstream.send(b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n", b"", heard)
        if when == "unanswered":
            await until(lambda: served.connections == 1)
        if when != "in a piece":
            heard.call.cancel()
        await asyncio.wait_for(ended.wait(), limits.ANSWER)
        await asyncio.sleep(0.02)
        assert not heard.over.is_set()
        heard.call.cancel()


async def test_a_late_cancel_does_not_end_the_next_request_of_the_connection() -> None:
    gate = asyncio.Event()

    async def slowly(_number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request_of(reader)
        writer.write(OK)
        await request_of(reader)
        await gate.wait()
        writer.write(OK)
        await reader.read()

    async with peer(slowly) as served:
        first = await served.told()
        second = served.ask()
        assert first.call is not None
        first.call.cancel()
        first.call.pause()
        gate.set()
        await asyncio.wait_for(second.over.wait(), limits.ANSWER)
        assert (second.ended, served.connections) == (True, 1)


async def test_who_pauses_an_answer_gets_no_more_of_it_until_it_goes_on() -> None:
    class Pauses(Heard):
        def on_piece(self, piece: bytes) -> None:
            super().on_piece(piece)
            assert self.call is not None
            self.call.pause()

    async def much(_number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(2):
            await request_of(reader)
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 4000000\r\n\r\n" + bytes(4_000_000))
        await reader.read()

    async with peer(much) as served:
        heard = Pauses()
        heard.call = served.upstream.send(b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n", b"", heard)
        await until(lambda: bool(heard.body))
        got = len(heard.body)
        await asyncio.sleep(0.1)
        assert len(heard.body) == got < 4_000_000
        while not heard.over.is_set():
            heard.call.resume()
            await asyncio.sleep(0.001)
        assert len(heard.body) == 4_000_000
        assert len((await served.told()).body) == 4_000_000, "the connection stays paused"
        assert served.connections == 1


async def test_a_listener_that_fails_costs_its_own_request_alone() -> None:
    class Fails(Heard):
        def on_piece(self, piece: bytes) -> None:
            raise RuntimeError(piece)

    async with peer(saying(OK)) as served:
        heard = Fails()
        served.upstream.send(b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n", b"", heard)
        await asyncio.wait_for(heard.over.wait(), limits.ANSWER)
        assert heard.failure is Failure.LOST
        assert (await served.told()).ended


async def test_a_listener_may_ask_again_from_its_end_on_the_same_connection() -> None:
    async with peer(saying(OK, OK)) as served:
        second = Heard()

        class Again(Heard):
            def on_end(self, _trailers: Headers = ()) -> None:
                super().on_end()
                served.upstream.send(b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n", b"", second)

        served.upstream.send(b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n", b"", Again())
        await asyncio.wait_for(second.over.wait(), limits.ANSWER)
        assert (second.body, served.connections) == (b"ok", 1)
