"""The verbs' HTTP server on real sockets: keep-alive, pipelining, both forms of bodies, an orderly end."""

from __future__ import annotations

import asyncio
import socket

import pytest

from harness import limits
from hetserve_shell.http.handlers import PathRouter
from http_clients import Served, chunked, post, until


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


async def test_each_of_a_thousand_requests_of_one_read_gets_a_turn_of_the_loop(served: Served) -> None:
    """Else they hold up the renewal of the Lease together: a read has room for thousands."""
    turn, served_at = 0, list[int]()

    def note(_body: bytes) -> bytes:
        served_at.append(turn)
        return b"{}"

    def count() -> None:
        nonlocal turn
        turn += 1
        if len(served_at) < 1000:
            loop.call_soon(count)

    loop = asyncio.get_running_loop()
    served.server.router = PathRouter({b"/note": note})
    client = await served.connect()
    loop.call_soon(count)
    await client.send(post("/note", b"") * 1000)
    assert [(await client.answer())[0] for _ in range(1000)] == [200] * 1000
    assert len(set(served_at)) == 1000


async def test_what_is_pipelined_behind_a_coroutine_waits_for_it(served: Served) -> None:
    client = await served.connect()
    await client.send(post("/wait", b"first") + post("/echo", b"second") + post("/echo", b"third"))
    await asyncio.wait_for(served.waiting.wait(), limits.ANSWER)
    assert served.seen == []
    served.gate.set()
    assert [(await client.answer())[1] for _ in range(3)] == [b'"first"', b'"second"', b'"third"']


async def test_a_chunked_body_is_put_together_and_trailers_are_dropped(served: Served) -> None:
    client = await served.connect()
    await client.send(chunked("/echo", b"one", b"two", end=b"0\r\nX-Sum: 7\r\n\r\n"))
    assert (await client.answer())[1] == b'"onetwo"'
    await client.send(post("/echo", b"next"))
    assert (await client.answer())[1] == b'"next"'


async def test_a_client_that_expects_100_continue_gets_it(served: Served) -> None:
    client = await served.connect()
    whole = post("/echo", b"body", "Expect: 100-continue")
    await client.send(whole[:-4])
    assert (await client.answer())[0] == 100
    await client.send(whole[-4:])
    assert (await client.answer())[1] == b'"body"'


async def test_answers_leave_without_waiting_for_an_acknowledgement(served: Served) -> None:
    before = set(served.server.open)
    await served.connect()
    client = await served.connect()
    await client.send(post("/echo", b"x"))
    await client.answer()
    (connection, *_) = set(served.server.open) - before
    sock = connection.transport.get_extra_info("socket")
    assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0, "every answer costs 40 ms more"


async def test_a_handler_that_fails_costs_its_request_and_no_other(served: Served) -> None:
    broken, fine = await served.connect(), await served.connect()
    await broken.send(post("/fail", b"x"))
    assert (await broken.answer())[:2] == (500, b'{"error":"RuntimeError: broken"}')
    await fine.send(post("/echo", b"x"))
    assert (await fine.answer())[0] == 200


async def test_http_1_0_and_a_client_that_wants_to_close_get_their_answer_and_an_end(served: Served) -> None:
    for request in (
        b"POST /echo HTTP/1.0\r\nContent-Length: 1\r\n\r\nx",
        b"POST /echo HTTP/1.0\r\nConnection: keep-alive\r\nContent-Length: 1\r\n\r\nx",
        post("/echo", b"x", "Connection: close") + post("/echo", b"never"),
    ):
        client = await served.connect()
        await client.send(request)
        status, body, headers = await client.answer()
        assert (status, body, headers["connection"]) == (200, b'"x"', "close")
        assert await client.closed() == b""
    assert b"never" not in served.seen


async def test_a_client_that_hangs_up_leaves_nothing_behind(served: Served) -> None:
    client = await served.connect()
    await client.send(post("/wait", b"x") + post("/echo", b"y" * 1000) + post("/echo", b"z" * 1000)[:-1])
    await asyncio.wait_for(served.waiting.wait(), limits.ANSWER)
    client.writer.transport.abort()
    served.gate.set()
    await until(lambda: len(served.server.open) == 0)
    assert served.seen[0] == b"x"
    assert b"z" * 1000 not in served.seen


async def test_stopping_answers_what_has_begun_and_takes_nothing_new(served: Served) -> None:
    busy, idle = await served.connect(), await served.connect()
    await busy.send(post("/wait", b"under way"))
    await asyncio.wait_for(served.waiting.wait(), limits.ANSWER)
    stopping = asyncio.create_task(served.server.stop(5.0))
    assert await idle.closed() == b""
    with pytest.raises(OSError, match=r"."):
        await served.connect()
    served.gate.set()
    status, body, headers = await busy.answer()
    assert (status, body, headers["connection"]) == (200, b'"under way"', "close")
    await asyncio.wait_for(stopping, limits.ANSWER)


async def test_stopping_waits_at_most_the_given_time(served: Served) -> None:
    busy = await served.connect()
    await busy.send(post("/wait", b"for ever"))
    await asyncio.wait_for(served.waiting.wait(), limits.ANSWER)
    await asyncio.wait_for(served.server.stop(0.05), limits.ANSWER)
    assert await busy.closed() == b""


async def test_a_server_that_was_stopped_can_be_started_again(served: Served) -> None:
    await served.server.stop(0.1)
    listener = socket.create_server(("127.0.0.1", 0))
    served.port = listener.getsockname()[1]
    await served.server.start(listener)
    client = await served.connect()
    await client.send(post("/echo", b"again"))
    assert (await client.answer())[1] == b'"again"'


@pytest.mark.parametrize("kept", [False, True])
@pytest.mark.parametrize("turns", range(-5, 9))
async def test_who_is_accepted_while_the_server_stops_is_closed_not_forgotten(
    served: Served, turns: int, kept: bool
) -> None:
    """A turn of the loop accepts, later ones serve: a stop may come between any two. turns: from the beginning of the
    stop until a client connects.
    """
    loop = asyncio.get_running_loop()
    if kept:
        client = await served.connect()
        await client.send(post("/echo", b"before"))
        await client.answer()
    with socket.socket() as late:
        stopping = None if turns < 0 else asyncio.create_task(served.server.stop(30.0))
        await _turns(max(turns, 0))
        try:
            late.connect(("127.0.0.1", served.port))
        except ConnectionRefusedError:
            assert turns >= 0
            return
        late.setblocking(False)
        await _turns(max(-turns, 0))
        try:
            seen = await asyncio.wait_for(_ends(loop, late, stopping, served), limits.ANSWER)
        except ConnectionResetError:  # it was not even accepted
            seen = b""
        assert seen == b""
        assert len(served.server.open) == 0


async def _turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def _ends(
    loop: asyncio.AbstractEventLoop, client: socket.socket, stopping: asyncio.Task[None] | None, served: Served
) -> bytes:
    """What a client reads once the server has stopped."""
    await (stopping or served.server.stop(30.0))
    return await loop.sock_recv(client, 1)
