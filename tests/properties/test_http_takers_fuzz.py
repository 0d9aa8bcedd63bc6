"""However bytes are cut, the same requests are taken and the same answers given, by server and client."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import uvloop
from hypothesis import example, given, settings
from hypothesis import strategies as st

from harness import limits
from hetserve.base.failures import Failure
from hetserve_shell.http.calls import ClientConnection, Upstream
from hetserve_shell.http.limits import ServerLimits
from hetserve_shell.http.takers import Headers
from http_clients import chunked
from http_takers import ask, receiving

TRAILED = chunked("/echo", b"z", end=b"0\r\nX-Sum: 7\r\n\r\n")
INTERIM = b"HTTP/1.1 100 Continue\r\n\r\n"
LIMITS = ServerLimits(head=2048, body=60_000, bodies=200_000, connections=16, waiting=5.0, lingering=0.05)
SHORT = [b"", b"x", b"0\r\n\r\nGET / HTTP/1.1\r\n\r\n", bytes(range(256)) * 16]
bodies = st.sampled_from([*SHORT, b"y" * 16_385])
requests = st.one_of(
    st.builds(lambda path, body: ask("POST", path, body=body), st.sampled_from(["/echo", "/fail"]), bodies),
    st.builds(lambda body: ask("POST", "/no", body=body), st.sampled_from(SHORT)),
    st.builds(lambda body: chunked("/echo", *filter(None, (body[:7], body[7:]))), bodies),
    st.sampled_from(
        [ask("GET", "/echo?x"), ask("HEAD", "/echo"), chunked("/echo", b"z", end=b"0\r\nX-Sum: 7\r\n\r\n")]
    ),
)
noise = st.sampled_from(
    [
        b"Content-Length: 99999999999999999999\r\n",
        b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 50000\r\n\r\n",
        b"POST /echo HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n",
        b"Connection: close\r\n",
        b"X: " + b"y" * 3000,
        b"\r\n",
        b"\x00\xff",
    ]
)
cuts = st.lists(st.integers(1, 9000), min_size=1, max_size=6)
PAUSE = 0.002
LAST = ask("GET", "/echo", "Connection: close")


def cut(data: bytes, sizes: list[int]) -> list[bytes]:
    parts: list[bytes] = []
    at = 0
    while at < len(data):
        size = sizes[len(parts) % len(sizes)] if len(parts) < 60 else len(data)
        parts.append(data[at : at + size])
        at += size
    return parts


async def served(parts: list[bytes], pause: float = 0.0) -> tuple[list[tuple[bytes, bytes, bytes]], bytes]:
    """Method, path and body of what was taken, and all that was said, without dates. pause: of refusals [s]."""
    async with receiving(LIMITS) as reception:
        reception.desk.pause = pause
        client = await reception.connect()
        with suppress(ConnectionError):
            for part in parts:
                await client.send(part)
                await asyncio.sleep(0)
        said = b""
        with suppress(ConnectionError):
            said = await client.closed()
        guests = reception.desk.guests
        taken = [(one.head.method, one.path, bytes(one.body or b"")) for one in guests if one.reply is not None]
    return taken, b"\r\n".join(line for line in said.split(b"\r\n") if not line.startswith((b"date: ", b"x-kind: ")))


@settings(deadline=None)
@given(wanted=st.lists(requests, max_size=6), sizes=cuts)
@example(wanted=[ask("POST", "/echo", body=b"y" * 16_385)] * 3, sizes=[1, 9000])
@example(wanted=[ask("GET", "/echo")] * 6, sizes=[1])
def test_however_requests_are_cut_the_same_are_taken_and_answered(wanted: list[bytes], sizes: list[int]) -> None:
    data = b"".join(wanted) + LAST
    taken, said = uvloop.run(served([data]))
    assert uvloop.run(served(cut(data, sizes))) == (taken, said)
    assert said.count(b"HTTP/1.1 ") == len(wanted) + 1
    assert uvloop.run(served([*wanted, LAST])) == (taken, said), "what stands behind a request changes its answer"
    assert uvloop.run(served(cut(data, sizes), PAUSE)) == (taken, said), "a refusal that waits changes what is said"


@settings(deadline=None)
@given(
    stream=st.lists(requests | noise | st.binary(max_size=30), max_size=8).map(b"".join),
    sizes=cuts,
    pause=st.sampled_from([0.0, PAUSE]),
)
def test_after_any_bytes_nothing_is_held_and_everybody_is_told(stream: bytes, sizes: list[int], pause: float) -> None:
    async def attacked() -> None:
        async with receiving(LIMITS) as reception:
            reception.desk.pause = pause
            client = await reception.connect()
            with suppress(ConnectionError):
                for part in cut(stream, sizes):
                    await client.send(part)
                    await asyncio.sleep(0)
            client.writer.transport.abort()
            good = await reception.connect()
            await good.send(ask("POST", "/echo", body=b"good"))
            assert (await good.answer())[:2] == (200, b"good")

    uvloop.run(attacked())


class Heard:
    def __init__(self) -> None:
        self.found: list[object] = []
        self.body = b""
        self.over = asyncio.Event()

    def on_head(self, status: int, headers: Headers) -> None:
        self.found.append((status, headers))

    def on_piece(self, piece: bytes) -> None:
        self.body += piece

    def on_end(self, _trailers: Headers = ()) -> None:
        self.over.set()

    def on_failed(self, failure: Failure, _reason: str) -> None:
        self.found.append(failure)
        self.over.set()


heads = st.sampled_from(
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        INTERIM + b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX: y\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\nhello",
        b"HTTP/1.1 204 No Content\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
    ]
)


async def heard(parts: list[bytes]) -> tuple[list[object], bytes]:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        with suppress(ConnectionError):
            for part in parts:
                writer.write(part)
                await writer.drain()
                await asyncio.sleep(0)
            writer.close()
            await writer.wait_closed()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    upstream, listener = Upstream(*server.sockets[0].getsockname(), connects=ClientConnection), Heard()
    upstream.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"", listener)
    await asyncio.wait_for(listener.over.wait(), limits.ANSWER)
    upstream.close()
    server.close()
    await server.wait_closed()
    return listener.found, listener.body


@settings(deadline=None)
@given(said=heads | st.builds(lambda head, more: head + more, heads, st.binary(max_size=20)), sizes=cuts)
def test_however_an_answer_is_cut_the_same_is_heard(said: bytes, sizes: list[int]) -> None:
    found, body = uvloop.run(heard([said]))
    again, body_again = uvloop.run(heard(cut(said, [1 + size % 40 for size in sizes])))
    assert again == found
    if Failure.LOST not in found:
        assert body_again == body
