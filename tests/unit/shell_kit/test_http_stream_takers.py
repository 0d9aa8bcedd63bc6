"""Takers over HTTP/2 without TLS: what begins with its preface is served by streams, gRPC among them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
import pytest_asyncio
from hyperframe.frame import GoAwayFrame

from hetserve_shell.http.frames import ErrorCode
from hetserve_shell.http.grpc import CONTENT_TYPE, WELL, framed
from hetserve_shell.http.streams import BURST
from http_clients import LIMITS, Client, hurry, until
from http_takers import Reception, receiving
from rpc_clients import RpcClient, message_of, status_of

JSON = [(b"content-type", b"application/json")]
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


@pytest_asyncio.fixture
async def reception(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Reception]:
    monkeypatch.setattr("hetserve_shell.http.server.TICK", 0.02)
    async with receiving(replace(LIMITS, streams=8)) as made:
        yield made
    assert made.server.unsent.used == 0


@asynccontextmanager
async def streams(reception: Reception) -> AsyncIterator[RpcClient]:
    client = RpcClient(*await asyncio.open_connection("127.0.0.1", reception.port))
    reception.clients.append(Client(client.reader, client.writer))
    await client.begin()
    yield client


async def test_a_head_over_http2_looks_as_over_http1(reception: Reception) -> None:
    async with streams(reception) as client:
        await client.ask("/a/b?c=d", b"body", ("x-two", "1"), ("x-two", "2"))
        guest, reply = await reception.guest()
        head = guest.head
        assert (head.method, head.path, head.query, head.length) == (b"POST", b"/a/b", b"c=d", 4)
        assert list(head.headers) == [
            (b"host", b"extender"),
            (b"content-length", b"4"),
            (b"x-two", b"1"),
            (b"x-two", b"2"),
        ]
        assert (head.get(b"x-two"), head.is_grpc, guest.body) == (b"1", False, b"body")
        reply.answer(200, JSON, b"{}")


@pytest.mark.parametrize("size", [0, 1, 16_385, 149_000])
async def test_a_body_comes_whole(reception: Reception, size: int) -> None:
    async with streams(reception) as client:
        answer = await client.call("/echo", bytes(size))
        assert (answer.status, len(answer.body), answer.headers["content-length"]) == (200, size, str(size))


@pytest.mark.parametrize("cut", [1, 2, 3, 10, 24])
async def test_a_preface_may_come_in_parts(reception: Reception, cut: int) -> None:
    client = await reception.connect()
    await client.send(PREFACE[:cut])
    await asyncio.sleep(0)
    await client.send(PREFACE[cut:] + bytes(3) + b"\4\0" + bytes(4))
    assert (await client.reader.readexactly(5))[3:4] == b"\4", "its settings"


@pytest.mark.parametrize("cut", [1, 2, 3])
async def test_what_begins_alike_is_served_as_before(reception: Reception, cut: int) -> None:
    client = await reception.connect()
    request = b"PRINT /x HTTP/1.1\r\n\r\n" if cut == 3 else b"PUT /echo HTTP/1.1\r\nHost: x\r\n\r\n"
    await client.send(request[:cut])
    await asyncio.sleep(0)
    await client.send(request[cut:])
    if cut < 3:
        assert (await client.answer())[0] == 200


async def test_answers_are_made_in_any_order(reception: Reception) -> None:
    async with streams(reception) as client:
        sent = [await client.ask(f"/{number}") for number in range(3)]
        for number in (2, 0, 1):
            (await reception.guest(number))[1].answer(200, JSON, b"%d" % number)
        assert [(await client.answer(stream)).body for stream in sent] == [b"0", b"1", b"2"]


async def test_a_head_alone_has_the_length_of_its_body(reception: Reception) -> None:
    async with streams(reception) as client:
        stream = client.start("/x", method="HEAD", end=True)
        client.flush()
        (await reception.guest())[1].answer(200, JSON, b"hello")
        answer = await client.answer(stream)
        assert (answer.headers["content-length"], answer.body) == ("5", b"")


async def test_pieces_are_held_back_until_the_client_takes_more(reception: Reception) -> None:
    async with streams(reception) as client:
        client.takes = False
        stream = await client.ask("/x")
        _, reply = await reception.guest()
        resumed = asyncio.Event()
        reply.begin(200, JSON, None)
        written = 0
        while not reply.paused:
            reply.write(bytes(10_000))
            written += 10_000
        assert written > 65_535 + BURST, "the client's window, and what is kept beyond it"
        reply.on_resume = resumed.set
        client.h2.increment_flow_control_window(1 << 20)
        client.h2.increment_flow_control_window(1 << 20, stream)
        client.flush()
        await client.until(resumed.is_set)
        reply.write(b"last")
        reply.end()
        assert len((await client.answer(stream)).body) == written + 4


@pytest.mark.parametrize("fault", ["abort", "not begun", "again"])
async def test_an_answer_that_is_not_whole_costs_its_stream_alone(reception: Reception, fault: str) -> None:
    async with streams(reception) as client:
        stream = await client.ask("/x")
        _, reply = await reception.guest()
        if fault != "not begun":
            reply.begin(200, JSON, None)
            reply.write(b"hel")
        if fault == "abort":
            reply.abort()
        elif fault == "not begun":
            reply.end()
        else:
            reply.answer(200, JSON, b"again")
        assert (await client.answer(stream)).reset is not None
        assert (await client.call("/echo", b"next")).body == b"next"


@pytest.mark.parametrize("path", ["/no", "/broken", "/fail"])
async def test_a_refusal_is_said_in_the_protocol_of_the_client(reception: Reception, path: str) -> None:
    async with streams(reception) as client:
        answer = await client.call(path, b"x")
        assert (answer.status, b'"error"' in answer.body) == (429 if path == "/no" else 500, True)
        by_rpc = await client.rpc(path, framed(b"x"))
        assert (by_rpc.status, by_rpc.body) == (200, b"")
        assert status_of(by_rpc)[0] == (8 if path == "/no" else 13)
        assert by_rpc.headers.get("retry-after") == ("3" if path == "/no" else None)


async def test_a_message_of_grpc_is_asked_for_once_its_length_has_come(reception: Reception) -> None:
    async with streams(reception) as client:
        stream = client.begin_call("/x")
        body = framed(b"message")
        await client.send(stream, body[:3], end=False)
        assert (await client.call("/echo", b"beside")).body == b"beside"
        assert len(reception.desk.guests) == 1, "of the message nobody knows the length yet"
        await client.send(stream, body[3:])
        guest, reply = await reception.guest(1)
        assert (guest.head.length, guest.body) == (len(body), body)
        reply.answer(200, [CONTENT_TYPE], framed(b"answer"), WELL)
        assert message_of(await client.answer(stream)) == b"answer"


async def test_trailers_come_behind_pieces_and_behind_nothing(reception: Reception) -> None:
    async with streams(reception) as client:
        for pieces in ((), (b"one", b"two")):
            stream = await client.start_call("/x", framed(b""))
            _, reply = await reception.guest(len(reception.desk.guests))
            reply.begin(200, [CONTENT_TYPE], None)
            for piece in pieces:
                reply.write(piece)
            reply.end(WELL)
            answer = await client.answer(stream)
            assert (answer.body, status_of(answer)[0]) == (b"".join(pieces), 0)


@pytest.mark.parametrize("how", ["reset", "end", "goaway"])
async def test_a_taker_learns_that_its_client_is_gone(reception: Reception, how: str) -> None:
    async with streams(reception) as client:
        whole, half = await client.ask("/x", b"body"), client.start("/x")
        client.flush()
        await until(lambda: len(reception.desk.guests) == 2)
        _, reply = await reception.guest()
        if how == "reset":
            client.reset(whole)
            client.reset(half)
        elif how == "end":
            client.writer.write_eof()
        else:
            client.writer.write(GoAwayFrame(0, error_code=2).serialize())
        await until(lambda: all(one.left == 1 for one in reception.desk.guests))
        reception.server.part()  # while the connection lingers, nothing more is written
        reply.answer(200, JSON, b"nobody reads it")


async def test_a_client_that_asks_no_more_gets_the_answers_to_what_it_has_asked(reception: Reception) -> None:
    async with streams(reception) as client:
        whole, half = await client.ask("/x", b"body"), client.start("/x")
        client.flush()
        await until(lambda: len(reception.desk.guests) == 2)
        client.writer.write(GoAwayFrame(0).serialize())
        assert await client.until_last() == half
        late = await client.ask("/late")
        assert (await client.answer(late)).reset == ErrorCode.REFUSED_STREAM
        await client.send(half, b"rest")
        for number, stream in ((1, half), (0, whole)):
            (await reception.guest(number))[1].answer(200, JSON, b"%d" % number)
            assert (await client.answer(stream)).body == b"%d" % number
        await client.until_closed()
        assert [one.left for one in reception.desk.guests] == [0, 0]


async def test_a_body_that_does_not_come_is_refused_in_time(reception: Reception) -> None:
    hurry(reception.server)
    async with streams(reception) as client:
        stream = client.start("/x", ("content-length", "10"))
        client.flush()
        assert (await client.answer(stream)).status == 408
        await until(lambda: reception.desk.guests[0].left == 1)


async def test_a_path_with_blanks_is_refused(reception: Reception) -> None:
    async with streams(reception) as client:
        assert (await client.call("/x HTTP/1.1", b"")).status == 400
        assert not reception.desk.guests


async def test_stopping_waits_for_the_answers(reception: Reception) -> None:
    async with streams(reception) as client:
        stream = await client.ask("/x")
        _, reply = await reception.guest()
        stopping = asyncio.create_task(reception.server.stop(60.0))
        await client.until_last()
        reply.answer(200, JSON, b"late")
        assert (await client.answer(stream)).body == b"late"
        await client.until_closed()
        await stopping
