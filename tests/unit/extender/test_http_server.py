"""The verbs' HTTP server on real sockets: keep-alive, pipelining, both forms of bodies, refusals, an orderly end."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus

import pytest
import pytest_asyncio

from hetserve_extender.http_limits import HttpError, Limits
from hetserve_extender.http_server import HttpServer

LIMITS = Limits(
    head=4096, body=200_000, bodies=300_000, connections=8, waiting=0.4, idle=0.6, unread=0.4, lingering=0.4
)


@dataclass
class Served:
    """A server with an echo, a handler that waits, one that fails and one that answers with very much."""

    server: HttpServer
    port: int
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    waiting: asyncio.Event = field(default_factory=asyncio.Event)
    seen: list[bytes] = field(default_factory=list)
    clients: list[Client] = field(default_factory=list)

    async def connect(self) -> Client:
        client = Client(*await asyncio.open_connection("127.0.0.1", self.port))
        self.clients.append(client)
        return client


@dataclass
class Client:
    """One connection of a client."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def answer(self) -> tuple[int, bytes, dict[str, str]]:
        head = (await asyncio.wait_for(self.reader.readuntil(b"\r\n\r\n"), 5.0)).decode()
        status, *lines = head.strip().split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
        body = await asyncio.wait_for(self.reader.readexactly(int(headers.get("content-length", 0))), 5.0)
        return int(status.split()[1]), body, headers

    async def refused(self) -> tuple[int, str]:
        """Status and text of a refusal, after which the server has closed its side."""
        status, body, headers = await self.answer()
        assert headers["connection"] == "close"
        assert await asyncio.wait_for(self.reader.read(), 5.0) == b""
        return status, json.loads(body)["Error"]

    async def closed(self) -> bytes:
        """What comes until the server closes."""
        return await asyncio.wait_for(self.reader.read(), 5.0)


def post(path: str, body: bytes, *headers: str) -> bytes:
    lines = [f"POST {path} HTTP/1.1", "Host: extender", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def chunked(path: str, *chunks: bytes, end: bytes = b"0\r\n\r\n") -> bytes:
    head = f"POST {path} HTTP/1.1\r\nHost: extender\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    return head + b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks) + end


@pytest_asyncio.fixture
async def served(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Served]:
    monkeypatch.setattr("hetserve_extender.http_server.TICK", 0.02)
    made: Served

    def echo(body: bytes) -> bytes:
        made.seen.append(body)
        return b'"' + body + b'"'

    async def wait(body: bytes) -> bytes:
        made.waiting.set()
        await made.gate.wait()
        return echo(body)

    def fail(body: bytes) -> bytes:
        raise RuntimeError("broken") if body else HttpError(HTTPStatus.BAD_REQUEST, "empty")

    def much(body: bytes) -> bytes:
        return bytes(8_000_000)

    server = HttpServer({b"/echo": echo, b"/wait": wait, b"/fail": fail, b"/much": much}, LIMITS)
    listener = socket.create_server(("127.0.0.1", 0))
    made = Served(server, listener.getsockname()[1])
    await server.start(listener)
    yield made
    made.gate.set()
    for client in made.clients:
        client.writer.transport.abort()
    await server.stop(1.0)
    await _until(lambda: not server.connections)
    assert server.budget.used == 0, "bytes of requests that are gone still count"


async def test_a_connection_serves_one_request_after_another(served: Served) -> None:
    client = await served.connect()
    for body in (b"a", b"", b"b" * 150_000):
        await client.send(post("/echo", body))
        status, answer, headers = await client.answer()
        assert (status, answer) == (200, b'"' + body + b'"')
        assert headers["content-type"] == "application/json"
        assert "connection" not in headers


async def test_pipelined_requests_are_answered_in_order_however_they_are_cut(served: Served) -> None:
    data = b"".join(post("/echo", str(number).encode()) for number in range(20))
    for size in (1, 7, len(data)):
        client = await served.connect()
        for start in range(0, len(data), size):
            await client.send(data[start : start + size])
        answers = [(await client.answer())[1] for _ in range(20)]
        assert answers == [f'"{number}"'.encode() for number in range(20)]


async def test_what_is_pipelined_behind_a_coroutine_waits_for_it(served: Served) -> None:
    client = await served.connect()
    await client.send(post("/wait", b"first") + post("/echo", b"second") + post("/echo", b"third"))
    await asyncio.wait_for(served.waiting.wait(), 5.0)
    assert served.seen == []
    served.gate.set()
    assert [(await client.answer())[1] for _ in range(3)] == [b'"first"', b'"second"', b'"third"']


async def test_a_chunked_body_is_put_together_and_trailers_are_dropped(served: Served) -> None:
    client = await served.connect()
    await client.send(chunked("/echo", b"one", b"two", end=b"0\r\nX-Sum: 7\r\n\r\n"))
    assert (await client.answer())[1] == b'"onetwo"'
    await client.send(post("/echo", b"next"))
    assert (await client.answer())[1] == b'"next"'


async def test_a_client_that_asks_before_it_sends_is_told_to_go_on(served: Served) -> None:
    client = await served.connect()
    whole = post("/echo", b"body", "Expect: 100-continue")
    await client.send(whole[:-4])
    assert (await client.answer())[0] == 100
    await client.send(whole[-4:])
    assert (await client.answer())[1] == b'"body"'


async def test_answers_leave_without_waiting_for_an_acknowledgement(served: Served) -> None:
    before = set(served.server._connections)
    await served.connect()
    client = await served.connect()
    await client.send(post("/echo", b"x"))
    await client.answer()
    (connection, *_) = served.server._connections - before
    sock = connection._transport.get_extra_info("socket")
    assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0, "every answer costs 40 ms more"


HOST = "Host: extender"
REFUSED = [
    pytest.param(post("/nowhere", b""), 404, "/echo, /wait", id="another path"),
    pytest.param(f"GET /echo HTTP/1.1\r\n{HOST}\r\n\r\n".encode(), 405, "POST alone", id="another method"),
    pytest.param(f"POST /echo HTTP/1.1\r\n{HOST}\r\n\r\n".encode(), 411, "neither", id="no length"),
    pytest.param(
        f"POST /echo HTTP/1.1\r\n{HOST}\r\nContent-Length: 200001\r\n\r\n".encode(), 413, "200000 bytes", id="too large"
    ),
    pytest.param(chunked("/echo", *[bytes(60_000)] * 4), 413, "200000 bytes", id="too large in chunks"),
    pytest.param(post("/echo", b"", f"X: {'x' * 5000}"), 431, "4096 bytes", id="a large header"),
    pytest.param(post("/echo?" + "x" * 5000, b""), 431, "4096 bytes", id="a long path"),
    pytest.param(post("/echo", b"", *[f"X-{i}: y" for i in range(900)]), 431, "4096", id="many headers"),
    pytest.param(post("/echo", b"", "Expect: a-miracle"), 417, "100-continue", id="another expectation"),
    pytest.param(b"POST /echo HTTP/1.1\r\nContent-Length: 0\r\n\r\n", 400, "Host", id="no host"),
    pytest.param(post("/echo", b"", HOST), 400, "Host", id="two hosts"),
    pytest.param(b"NONSENSE\r\n\r\n", 400, "not HTTP/1.1", id="not HTTP"),
    pytest.param(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400, "not HTTP/1.1", id="TLS"),
    pytest.param(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400, "", id="HTTP/2"),
    pytest.param(post("/echo", b"", "Connection: Upgrade", "Upgrade: websocket"), 400, "no upgrade", id="an upgrade"),
]

SMUGGLED = [
    pytest.param(["Content-Length: 5", "Transfer-Encoding: chunked"], id="length and chunks"),
    pytest.param(["Transfer-Encoding: chunked", "Content-Length: 5"], id="chunks and length"),
    pytest.param(["Content-Length: 5", "Content-Length: 5"], id="the same length twice"),
    pytest.param(["Content-Length: 5", "Content-Length: 40"], id="two lengths"),
    pytest.param(["Content-Length: 5, 40"], id="two lengths in one"),
    pytest.param(["Content-Length: +5"], id="a signed length"),
    pytest.param(["Content-Length: 0x5"], id="a hexadecimal length"),
    pytest.param(["Content-Length : 5"], id="a blank before the colon"),
    pytest.param(["Transfer-Encoding: chunked", "Transfer-Encoding: identity"], id="two encodings"),
    pytest.param(["Transfer-Encoding: gzip, chunked"], id="an encoding we do not serve"),
    pytest.param(["Transfer-Encoding: xchunked"], id="nearly chunked"),
    pytest.param(["Transfer-Encoding:\x0bchunked"], id="chunked after a vertical tab"),
]


@pytest.mark.parametrize(("request_", "status", "words"), REFUSED)
async def test_a_request_that_is_not_served_is_refused_in_words(
    served: Served, request_: bytes, status: int, words: str
) -> None:
    client = await served.connect()
    await client.send(request_)
    found, text = await client.refused()
    assert found == status
    assert words in text


@pytest.mark.parametrize("headers", SMUGGLED)
async def test_a_request_whose_end_a_proxy_could_see_elsewhere_is_refused_whole(
    served: Served, headers: list[str]
) -> None:
    hidden = post("/echo", b"smuggled")
    client = await served.connect()
    await client.send("\r\n".join(["POST /echo HTTP/1.1", HOST, *headers]).encode() + b"\r\n\r\n0\r\n\r\n" + hidden)
    status, _ = await client.refused()
    assert status in (400, 501)
    assert served.seen == [], "a request that nobody sent was served"


async def test_a_refusal_keeps_its_place_behind_the_answers_before_it(served: Served) -> None:
    client = await served.connect()
    await client.send(post("/wait", b"first") + b"NONSENSE\r\n\r\n" + post("/echo", b"never"))
    await asyncio.wait_for(served.waiting.wait(), 5.0)
    served.gate.set()
    assert (await client.answer())[1] == b'"first"'
    assert (await client.refused())[0] == 400
    assert served.seen == [b"first"]


async def test_a_handler_that_fails_costs_its_request_and_no_other(served: Served) -> None:
    broken, fine = await served.connect(), await served.connect()
    await broken.send(post("/fail", b"x"))
    assert await broken.refused() == (500, "RuntimeError: broken")
    await fine.send(post("/echo", b"x"))
    assert (await fine.answer())[0] == 200
    refused = await served.connect()
    await refused.send(post("/fail", b""))
    assert await refused.refused() == (400, "empty")


async def test_http_1_0_and_a_client_that_wants_to_close_get_their_answer_and_an_end(served: Served) -> None:
    for request in (
        b"POST /echo HTTP/1.0\r\nContent-Length: 1\r\n\r\nx",
        post("/echo", b"x", "Connection: close") + post("/echo", b"never"),
    ):
        client = await served.connect()
        await client.send(request)
        status, body, headers = await client.answer()
        assert (status, body, headers["connection"]) == (200, b'"x"', "close")
        assert await client.closed() == b""
    assert b"never" not in served.seen


async def test_a_half_closed_connection_still_gets_the_answer_to_what_was_whole(served: Served) -> None:
    client = await served.connect()
    await client.send(post("/wait", b"whole") + post("/echo", b"unfinished")[:-3])
    await asyncio.wait_for(served.waiting.wait(), 5.0)
    client.writer.write_eof()
    await asyncio.sleep(0.05)
    served.gate.set()
    assert (await client.answer())[1] == b'"whole"'
    assert await client.closed() == b""
    assert served.seen == [b"whole"]


async def test_a_client_that_hangs_up_leaves_nothing_behind(served: Served) -> None:
    client = await served.connect()
    await client.send(post("/wait", b"x") + post("/echo", b"y" * 1000) + post("/echo", b"z" * 1000)[:-1])
    await asyncio.wait_for(served.waiting.wait(), 5.0)
    client.writer.transport.abort()
    served.gate.set()
    await _until(lambda: served.server.connections == 0)
    assert served.seen[0] == b"x"
    assert b"z" * 1000 not in served.seen


SLOW = [
    pytest.param(b"", b"", id="says nothing"),
    pytest.param(b"POST /echo HTTP/1.1\r\nHost: ", b"408", id="stops in the head"),
    pytest.param(post("/echo", b"x" * 100)[:-1], b"408", id="stops before the last byte"),
    pytest.param(chunked("/echo", b"x", end=b""), b"408", id="stops between chunks"),
]


@pytest.mark.parametrize(("sent", "status"), SLOW)
async def test_a_client_that_stops_is_not_waited_for(served: Served, sent: bytes, status: bytes) -> None:
    client = await served.connect()
    await client.send(sent)
    said = await client.closed()
    assert said[9:12] == status


async def test_a_slow_loris_is_cut_off_though_it_never_stops(served: Served) -> None:
    client = await served.connect()
    start = asyncio.get_running_loop().time()
    sender = asyncio.create_task(_drip(client, b"POST /echo HTTP/1.1\r\nHost: extender\r\nX: " + b"x" * 10_000))
    assert (await client.closed())[9:12] == b"408"
    assert asyncio.get_running_loop().time() - start < 3.0
    sender.cancel()


async def _drip(client: Client, data: bytes) -> None:
    for byte in data:
        client.writer.write(bytes([byte]))
        await asyncio.sleep(0.01)


async def test_an_idle_connection_is_kept_for_a_while_and_no_longer(served: Served) -> None:
    client = await served.connect()
    await client.send(post("/echo", b"x"))
    await client.answer()
    start = asyncio.get_running_loop().time()
    assert await client.closed() == b""
    assert asyncio.get_running_loop().time() - start > LIMITS.idle / 2


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
    client = await served.connect()
    client.reader._transport.pause_reading()  # type: ignore[attr-defined]
    await client.send(post("/much", b"") * 500)
    await _until(lambda: served.server.connections == 0)


async def test_at_the_limit_the_connection_worth_least_makes_room(served: Served) -> None:
    clients = []
    for _ in range(LIMITS.connections + 3):
        client = await served.connect()
        await client.send(post("/echo", b"x"))
        assert (await client.answer())[0] == 200, "idle connections shut the scheduler out"
        clients.append(client)
        await asyncio.sleep(0.03)
    assert served.server.connections <= LIMITS.connections
    assert await clients[0].closed() == b""


async def test_silent_connections_push_out_neither_the_scheduler_nor_a_bind_under_way(served: Served) -> None:
    binding, scheduler = await served.connect(), await served.connect()
    await binding.send(post("/wait", b"bind"))
    await asyncio.wait_for(served.waiting.wait(), 5.0)
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
    clients = [await served.connect() for _ in range(4)]
    for client in clients[:3]:
        await client.send(post("/echo", bytes(150_000))[:-1])
    await clients[3].send(post("/echo", b"small"))
    statuses = {(await client.answer())[0] for client in clients}
    assert {200, 503} <= statuses
    assert served.server.budget.used <= LIMITS.bodies


async def test_stopping_answers_what_has_begun_and_takes_nothing_new(served: Served) -> None:
    busy, idle = await served.connect(), await served.connect()
    await busy.send(post("/wait", b"under way"))
    await asyncio.wait_for(served.waiting.wait(), 5.0)
    stopping = asyncio.create_task(served.server.stop(5.0))
    assert await idle.closed() == b""
    with pytest.raises(OSError, match=r"."):
        await served.connect()
    served.gate.set()
    status, body, headers = await busy.answer()
    assert (status, body, headers["connection"]) == (200, b'"under way"', "close")
    await asyncio.wait_for(stopping, 5.0)


async def test_stopping_does_not_wait_longer_than_it_is_told(served: Served) -> None:
    busy = await served.connect()
    await busy.send(post("/wait", b"for ever"))
    await asyncio.wait_for(served.waiting.wait(), 5.0)
    await asyncio.wait_for(served.server.stop(0.05), 5.0)
    assert await busy.closed() == b""


async def test_a_server_that_was_stopped_can_be_started_again(served: Served) -> None:
    await served.server.stop(0.1)
    listener = socket.create_server(("127.0.0.1", 0))
    served.port = listener.getsockname()[1]
    await served.server.start(listener)
    client = await served.connect()
    await client.send(post("/echo", b"again"))
    assert (await client.answer())[1] == b'"again"'


async def _until(holds: Callable[[], bool], within: float = 5.0) -> None:
    async with asyncio.timeout(within):
        while not holds():  # noqa: ASYNC110  (nothing tells when a socket is gone)
            await asyncio.sleep(0.01)
