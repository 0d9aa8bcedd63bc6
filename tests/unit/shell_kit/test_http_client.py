"""Short requests over kept connections, against a server of our own and against ones that misbehave."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from harness import limits
from hetserve_shell.http.client import AnswerTooLargeError, ConnectionEndedError, HttpClient, NotSentError
from hetserve_shell.http.handlers import PathRouter
from hetserve_shell.http.server import HttpServer

Answering = Callable[[int, asyncio.StreamReader, asyncio.StreamWriter], Coroutine[Any, Any, None]]
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\no\r\n1\r\nk\r\n0\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


@asynccontextmanager
async def server_of(answer: Answering) -> AsyncIterator[tuple[str, list[int]]]:
    """Address of a server that runs `answer` for every connection with its number; the numbers so far."""
    numbers: list[int] = []
    tasks: set[asyncio.Task[None] | None] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        numbers.append(len(numbers))
        tasks.add(asyncio.current_task())
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            await answer(numbers[-1], reader, writer)
        writer.transport.abort()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", numbers
    finally:
        server.close()
        await asyncio.wait([task for task in tasks if task], timeout=limits.ANSWER)


async def ask(
    client: HttpClient, target: str = "/", body: bytes = b"", within: float = limits.ANSWER
) -> tuple[int, bytes]:
    return await client.request("POST", target, headers={"X": "y"}, body=body, timeout=within)


async def test_requests_in_a_row_share_a_connection_and_those_beside_each_other_do_not() -> None:
    gate = asyncio.Event()

    async def wait(body: bytes) -> bytes:
        await gate.wait()
        return body

    server = HttpServer(PathRouter({b"/echo": lambda body: body, b"/wait": wait}))
    listener = socket.create_server(("127.0.0.1", 0))
    await server.start(listener)
    client = HttpClient(f"http://127.0.0.1:{listener.getsockname()[1]}", None, 8)
    for size in (0, 1, 200_000):
        assert await ask(client, "/echo", b"x" * size) == (200, b"x" * size)
    assert len(server.open) == 1
    together = [asyncio.create_task(ask(client, "/wait", str(number).encode())) for number in range(3)]
    while len(server.open) < 3:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    gate.set()
    assert [body for _, body in await asyncio.gather(*together)] == [b"0", b"1", b"2"]
    assert (await ask(client, "/nowhere"))[0] == 404
    client.close()
    await server.stop(1.0)


async def test_no_more_requests_are_under_way_than_allowed() -> None:
    async def hold(_number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.readuntil(b"\r\n\r\n"):
            await asyncio.sleep(0.02)
            writer.write(OK)

    async with server_of(hold) as (base, numbers):
        client = HttpClient(base, None, 2)
        answers = await asyncio.gather(*(ask(client) for _ in range(7)))
        assert answers == [(200, b"ok")] * 7
        assert len(numbers) == 2
        client.close()


async def test_the_time_of_a_request_runs_while_it_waits_for_a_connection() -> None:
    async def silent(_number: int, reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        await reader.read()
        await reader.read()

    async with server_of(silent) as (base, numbers):
        client = HttpClient(base, None, 2)
        slow = [asyncio.create_task(ask(client)) for _ in range(2)]
        while len(numbers) < 2:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        with pytest.raises(TimeoutError, match=r"no connection was free within 0\.05 s"):
            await asyncio.wait_for(ask(client, within=0.05), limits.ANSWER)
        for task in slow:
            task.cancel()
        await asyncio.wait(slow)


async def test_a_request_whose_reason_has_gone_while_it_waited_is_not_sent() -> None:
    served: list[bytes] = []
    answered: list[bytes] = []

    async def answer(_number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while head := await reader.readuntil(b"\r\n\r\n"):
            served.append(head)
            await asyncio.sleep(0.05)
            answered.append(head)
            writer.write(OK)

    async with server_of(answer) as (base, numbers):
        client = HttpClient(base, None, 1)
        first = asyncio.create_task(ask(client, "/first"))
        while not served:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        with pytest.raises(NotSentError, match="too late"):
            await client.request(
                "POST", "/late", headers={}, timeout=limits.ANSWER, unless=lambda: "too late" * len(answered)
            )
        assert (await first, await ask(client)) == ((200, b"ok"), (200, b"ok"))
        assert b"/late" not in b"".join(served)
        assert len(numbers) == 1, "the connection that was not used is kept"
        client.close()


FORMS = [
    pytest.param(
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\no\r\n1\r\nk\r\n0\r\n\r\n", 1, id="chunked"
    ),
    pytest.param(b"HTTP/1.1 100 Continue\r\n\r\n" + OK, 1, id="an interim answer first"),
    pytest.param(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok", 2, id="then closed"),
]


@pytest.mark.parametrize(("form", "connections"), FORMS)
async def test_answers_of_every_form_are_read(form: bytes, connections: int) -> None:
    async def answer(_number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.readuntil(b"\r\n\r\n"):
            for at in range(len(form)):
                writer.write(form[at : at + 1])
                await asyncio.sleep(0)

    async with server_of(answer) as (base, numbers):
        client = HttpClient(base, None, 1)
        assert [await ask(client) for _ in range(2)] == [(200, b"ok")] * 2
        assert len(numbers) == connections
        client.close()


BROKEN = [
    pytest.param(b"", "closed", id="closed without a word"),
    pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort", "closed", id="closed in the middle"),
    pytest.param(b"SSH-2.0\r\n", "not HTTP/1.1", id="another protocol"),
]


@pytest.mark.parametrize(("said", "words"), BROKEN)
async def test_an_answer_that_is_not_whole_is_an_error_and_its_connection_is_not_used_again(
    said: bytes, words: str
) -> None:
    async def answer(number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(OK if number else said)
        await writer.drain()
        writer.write_eof()
        await reader.read()

    async with server_of(answer) as (base, numbers):
        client = HttpClient(base, None, 1)
        with pytest.raises(ConnectionEndedError, match=words):
            await ask(client)
        assert await ask(client) == (200, b"ok")
        assert len(numbers) == 2
        client.close()


async def test_a_late_answer_is_not_taken_for_that_of_the_next_request() -> None:
    late = asyncio.Event()

    async def answer(number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.readuntil(b"\r\n\r\n"):
            if not number:
                await late.wait()
            writer.write(OK if number else OK.replace(b"ok", b"no"))

    async with server_of(answer) as (base, _):
        client = HttpClient(base, None, 1)
        with pytest.raises(TimeoutError, match=r"no answer within 0\.05 s"):
            await ask(client, within=0.05)
        cancelled = asyncio.create_task(ask(client))
        late.set()
        assert (await asyncio.wait_for(cancelled, limits.ANSWER))[1] == b"ok", (
            "a bind is told of another bind's success"
        )
        client.close()


async def test_a_cancelled_request_takes_its_connection_with_it() -> None:
    arrived = asyncio.Event()

    async def answer(number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.readuntil(b"\r\n\r\n"):
            arrived.set()
            if number:
                writer.write(OK)

    async with server_of(answer) as (base, numbers):
        client = HttpClient(base, None, 1)
        task = asyncio.create_task(ask(client))
        await arrived.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await ask(client) == (200, b"ok")
        assert len(numbers) == 2
        client.close()


async def test_a_connection_that_lay_idle_too_long_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    async def answer(_number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.readuntil(b"\r\n\r\n"):
            writer.write(OK)

    async with server_of(answer) as (base, numbers):
        client = HttpClient(base, None, 1)
        await ask(client)
        monkeypatch.setattr("hetserve_shell.http.client.KEPT_FOR", -1.0)
        await ask(client)
        assert len(numbers) == 2
        client.close()


async def test_nobody_there_is_an_error_of_the_connection() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(OSError, match=r"."):
        await ask(HttpClient(f"http://127.0.0.1:{port}", None, 1))


@pytest.mark.parametrize("head", [b"Content-Length: 400000000\r\n", b"Transfer-Encoding: chunked\r\n"])
async def test_no_more_of_an_answer_is_kept_than_may_be_read(head: bytes) -> None:
    """It ends while it is read: who sends without an end would fill the memory."""
    sent = 0

    async def endless(_number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\n" + head + b"\r\n")
        while sent < 100 << 20:
            writer.write(b"10000\r\n" + bytes(1 << 16) + b"\r\n" if b"chunked" in head else bytes(1 << 16))
            sent += 1 << 16
            await writer.drain()

    async with server_of(endless) as (base, _):
        client = HttpClient(base, None, 1, largest=1 << 20)
        with pytest.raises(AnswerTooLargeError, match="the answer has more than 1,048,576 bytes"):
            await ask(client)
        client.close()
    assert sent < 20 << 20


async def test_an_answer_as_large_as_may_be_read_is_read_again_and_again() -> None:
    async def whole(_number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.readuntil(b"\r\n\r\n"):
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n" + bytes(1000))

    async with server_of(whole) as (base, numbers):
        client = HttpClient(base, None, 1, largest=1000)
        assert [len((await ask(client))[1]) for _ in range(3)] == [1000] * 3
        assert len(numbers) == 1
        client.close()
