"""Requests that their heads send to takers: what is taken, how it is answered, and who learns that a client went."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from http import HTTPStatus

import pytest
import pytest_asyncio

from harness import limits
from hetserve_shell.http.limits import HttpError
from http_clients import LIMITS, Client, chunked, hurry, until
from http_takers import Reception, ask, in_pieces, receiving

JSON = [(b"content-type", b"application/json")]


@pytest_asyncio.fixture
async def reception(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Reception]:
    monkeypatch.setattr("hetserve_shell.http.server.TICK", 0.02)
    async with receiving(LIMITS) as made:
        yield made


async def test_the_head_is_seen_whole_and_in_order_before_the_body(reception: Reception) -> None:
    client = await reception.connect()
    await client.send(ask("PUT", "/a/b?c=d&e", "X-Two: 1", "Accept: */*", "X-Two: 2", body=b"body")[:-1])
    await until(lambda: bool(reception.desk.guests))
    (guest,) = reception.desk.guests
    head = guest.head
    assert (head.method, head.path, head.query, head.length) == (b"PUT", b"/a/b", b"c=d&e", 4)
    assert list(head.headers) == [
        (b"host", b"x"),
        (b"x-two", b"1"),
        (b"accept", b"*/*"),
        (b"x-two", b"2"),
        (b"content-length", b"4"),
    ]
    assert (head.get(b"x-two"), head.get(b"x-three")) == (b"1", b"")
    assert guest.body is None


@pytest.mark.parametrize("size", [0, 1, 16 * 1024, 16 * 1024 + 1, 150_000])
@pytest.mark.parametrize("piece", [997, 200_000])
async def test_a_body_comes_whole_however_it_is_cut(reception: Reception, size: int, piece: int) -> None:
    body = bytes(range(256)) * (size // 256 + 1)
    data = ask("POST", "/echo", body=body[:size]) + ask("POST", "/echo", body=b"next")
    client = await reception.connect()
    for start in range(0, len(data), piece):
        await client.send(data[start : start + piece])
    assert (await client.answer())[:2] == (200, body[:size])
    assert (await client.answer())[1] == b"next"


async def test_a_long_body_is_received_in_one_buffer_that_counts_from_its_head_on(reception: Reception) -> None:
    client = await reception.connect()
    await client.send(ask("POST", "/echo", length=100_000))
    await until(lambda: reception.server.budget.used == 100_000)
    for _ in range(10):
        await client.send(b"x" * 10_000)
    status, answer, headers = await client.answer()
    assert (status, answer, headers["x-kind"]) == (200, b"x" * 100_000, "bytearray")


async def test_a_body_in_chunks_has_no_length_and_one_that_is_not_there_has_none(reception: Reception) -> None:
    client = await reception.connect()
    await client.send(chunked("/echo", b"one", b"two") + ask("POST", "/echo") + ask("GET", "/echo"))
    assert [(await client.answer())[1] for _ in range(3)] == [b"onetwo", b"", b""]
    assert [guest.head.length for guest in reception.desk.guests] == [None, 0, 0]


@pytest.mark.parametrize(
    ("method", "status", "length"),
    [("GET", 200, "5"), ("HEAD", 200, "5"), ("GET", 204, None), ("GET", 304, None), ("GET", 599, "5")],
)
@pytest.mark.parametrize("streamed", [False, True])
async def test_an_answer_has_a_body_where_the_protocol_has_one(
    reception: Reception, method: str, status: int, length: str | None, streamed: bool
) -> None:
    client = await reception.connect()
    await client.send(ask(method, "/x"))
    _, reply = await reception.guest()
    if streamed:
        reply.begin(status, JSON, 5)
        reply.write(b"he")
        reply.write(b"")
        reply.write(b"llo")
        reply.end()
    else:
        reply.answer(status, JSON, b"hello")
    head = (await client.reader.readuntil(b"\r\n\r\n")).decode()
    assert f" {status} " in head
    assert "content-type: application/json\r\n" in head
    assert (f"content-length: {length}\r\n" in head) if length else "content-length" not in head
    body = b"hello" if length and method == "GET" else b""
    await client.send(ask("POST", "/echo", body=b"next"))
    assert await client.reader.readexactly(len(body)) == body
    assert (await client.answer())[:2] == (200, b"next")


async def test_pieces_of_an_unknown_number_come_in_chunks_and_to_old_clients_until_the_end(
    reception: Reception,
) -> None:
    client, old = await reception.connect(), await reception.connect()
    await client.send(ask("GET", "/x"))
    await old.send(b"GET /x HTTP/1.0\r\n\r\n")
    for number in (0, 1):
        _, reply = await reception.guest(number)
        reply.begin(200, [], None)
        for piece in (b"one", b"two" * 10_000):
            reply.write(piece)
        reply.end()
    head, chunks = await in_pieces(client)
    assert b"transfer-encoding: chunked\r\n" in head
    assert chunks == [b"one", b"two" * 10_000]
    head, _, body = (await old.closed()).partition(b"\r\n\r\n")
    assert b"chunked" not in head
    assert b"connection: close" in head
    assert body == b"one" + b"two" * 10_000


@pytest.mark.parametrize("fault", ["abort", "too few", "too many", "not begun", "again"])
async def test_an_answer_that_is_not_whole_ends_with_its_connection(reception: Reception, fault: str) -> None:
    client = await reception.connect()
    await client.send(ask("GET", "/x"))
    guest, reply = await reception.guest()
    if fault != "not begun":
        reply.begin(200, [], 5)
        reply.write(b"xxx" * (2 if fault == "too many" else 1))
    if fault == "abort":
        reply.abort()
    elif fault == "again":
        reply.answer(200, [], b"x")
    else:
        reply.end()
    reply.write(b"never")
    reply.answer(200, [], b"never")
    reply.end()
    assert not (await _rest(client)).endswith((b"never", b"x" * 5))
    assert guest.left == 0, "who broke off is told that the client did"


async def _rest(client: Client) -> bytes:
    try:
        return await client.closed()
    except ConnectionError:
        return b""


@pytest.mark.parametrize("end", ["closes its side", "resets", "hangs up in the body"])
async def test_who_took_a_request_learns_that_its_client_is_gone(reception: Reception, end: str) -> None:
    client = await reception.connect()
    whole = ask("POST", "/x", body=b"x" * 100_000)
    await client.send(whole[:-1] if end == "hangs up in the body" else whole + ask("POST", "/behind", body=b"y"))
    await until(lambda: bool(reception.desk.guests))
    guest = reception.desk.guests[0]
    if end != "hangs up in the body":
        await reception.guest()
    if end == "closes its side":
        client.writer.write_eof()
    else:
        client.writer.transport.abort()
    await until(lambda: guest.left == 1)
    await until(lambda: reception.server.budget.used == 0)
    if guest.reply is not None:
        guest.reply.answer(200, [], b"too late")
    assert all(behind.reply is None for behind in reception.desk.guests[1:])


async def test_all_who_were_asked_learn_that_the_client_is_gone(reception: Reception) -> None:
    client = await reception.connect()
    await client.send(ask("GET", "/x") + ask("GET", "/y") + ask("POST", "/z", length=5))
    await until(lambda: len(reception.desk.guests) == 3)
    client.writer.transport.abort()
    await until(lambda: [guest.left for guest in reception.desk.guests] == [1, 1, 1])


async def test_the_end_of_a_client_is_noticed_again_once_what_stood_behind_is_read(reception: Reception) -> None:
    client = await reception.connect()
    await client.send(ask("GET", "/x"))
    _, reply = await reception.guest()
    await client.send(chunked("/y", b"y" * 50_000))
    await until(lambda: reception.server.budget.used > 50_000)
    reply.answer(200, [], b"")
    guest, _ = await reception.guest(1)
    client.writer.write_eof()
    await until(lambda: guest.left == 1)


async def test_a_client_that_goes_after_its_answer_is_not_reported(reception: Reception) -> None:
    client = await reception.connect()
    await client.send(ask("GET", "/echo"))
    await client.answer()
    client.writer.transport.abort()
    await until(lambda: not reception.server.open)
    assert reception.desk.guests[0].left == 0


async def test_requests_behind_one_another_are_answered_in_order_each_after_the_other(reception: Reception) -> None:
    client = await reception.connect()
    data = b"".join(ask("POST", f"/{number}", body=b"x" * 1500) for number in range(9)) + ask("POST", "/9", body=b"y")
    await client.send(data)
    for number in range(10):
        guest, reply = await reception.guest(number)
        assert all(later.reply is None for later in reception.desk.guests[number + 1 :])
        reply.answer(200, [], guest.path)
    assert [(await client.answer())[1] for _ in range(10)] == [f"/{number}".encode() for number in range(10)]


@pytest.mark.parametrize("size", [1000, 30_000, 500_000])
@pytest.mark.parametrize("early", [500, 10_000])
async def test_a_long_body_behind_a_request_that_waits_is_its_own(reception: Reception, size: int, early: int) -> None:
    long = bytes(range(256)) * 400
    data = ask("GET", "/x") + ask("POST", "/y", body=long) + ask("POST", "/echo", body=b"next")
    client = await reception.connect()
    sent = len(ask("GET", "/x")) + early
    await client.send(data[:sent])
    _, first = await reception.guest()
    for start in range(sent, len(data), size):
        await client.send(data[start : start + size])
        await asyncio.sleep(0.002)
    first.answer(200, [], b"first")
    guest, second = await reception.guest(1)
    assert guest.body == long
    second.answer(200, [], b"second")
    assert [(await client.answer())[1] for _ in range(3)] == [b"first", b"second", b"next"]


async def test_what_still_comes_of_a_long_body_that_was_refused_is_thrown_away(reception: Reception) -> None:
    hurry(reception.server)
    client = await reception.connect()
    await client.send(ask("POST", "/x", length=100_000))
    await until(lambda: bool(reception.desk.guests and reception.desk.guests[0].left))
    await client.send(b"x" * 100_000 + ask("GET", "/never"))
    assert (await client.refused())[0] == 408
    assert len(reception.desk.guests) == 1


async def test_a_taker_that_fails_when_its_client_goes_costs_nobody_else(reception: Reception) -> None:
    client = await reception.connect()
    await client.send(ask("GET", "/x"))
    guest, _ = await reception.guest()

    def fail() -> None:
        guest.left += 1
        raise RuntimeError("broken")

    guest.gone = fail  # type: ignore[method-assign]
    client.writer.transport.abort()
    await until(lambda: not reception.server.open)


async def test_what_stands_behind_a_request_that_waits_is_neither_read_without_bound_nor_uncounted(
    reception: Reception,
) -> None:
    reception.server.budget.limit = 10_000_000
    client = await reception.connect()
    await client.send(ask("POST", "/x", body=b"x"))
    _, reply = await reception.guest()
    client.writer.write(ask("GET", "/y") * 200_000)  # 6 MB
    await until(lambda: reception.server.budget.used > 1)
    await asyncio.sleep(0.1)
    assert len(reception.desk.guests) == 1
    assert reception.server.budget.used < 600_000
    reception.server.budget.limit = 1000
    other = await reception.connect()
    await other.send(ask("POST", "/x", body=b"x"))
    assert (await other.refused())[0] == 503, "what stands behind requests takes more than all may"
    reply.abort()


async def test_each_of_many_instant_requests_of_one_read_gets_a_turn_of_the_loop(reception: Reception) -> None:
    loop, turn, seen = asyncio.get_running_loop(), 0, set[int]()

    def count() -> None:
        nonlocal turn
        turn += 1
        if len(reception.desk.guests) < 300:
            seen.update({turn} if reception.desk.guests else ())
            loop.call_soon(count)

    client = await reception.connect()
    loop.call_soon(count)
    await client.send(ask("GET", "/echo") * 300)
    assert [(await client.answer())[0] for _ in range(300)] == [200] * 300
    assert len(seen) > 10


async def test_a_client_that_expects_it_is_told_to_go_on_only_where_its_request_is_taken(reception: Reception) -> None:
    client, refused = await reception.connect(), await reception.connect()
    await client.send(ask("POST", "/echo", "Expect: 100-continue", length=4))
    assert (await client.answer())[0] == 100
    await client.send(b"body")
    assert (await client.answer())[1] == b"body"
    await refused.send(ask("POST", "/no", "Expect: 100-continue", length=4))
    status, _, headers = await refused.answer()
    assert (status, headers["retry-after"], headers["connection"]) == (429, "3", "close")


@pytest.mark.parametrize(
    ("path", "status", "message"),
    [
        ("/no", 429, "the queue is full"),
        ("/broken", 500, "RuntimeError: broken"),
        ("/fail", 500, "RuntimeError: broken"),
    ],
)
async def test_who_is_refused_keeps_the_connection_where_the_body_is_short(
    reception: Reception, path: str, status: int, message: str
) -> None:
    client = await reception.connect()
    await client.send(ask("POST", path, body=b"x" * 5000) + ask("POST", "/echo", body=b"next"))
    found, body, headers = await client.answer()
    assert (found, body) == (status, b'{"error":"%b"}' % message.encode())
    assert headers["content-type"] == "application/json"
    assert (await client.answer())[1] == b"next"


@pytest.mark.parametrize("data", [ask("POST", "/no", length=100_000), chunked("/no", b"x", end=b"")])
async def test_a_body_that_is_long_is_not_read_to_refuse_it(reception: Reception, data: bytes) -> None:
    client = await reception.connect()
    await client.send(data)
    status, body, headers = await client.answer()
    assert (status, body, headers["connection"]) == (429, b'{"error":"the queue is full"}', "close")
    assert headers["retry-after"] == "3"
    assert await client.closed() == b""


@pytest.mark.parametrize("data", [ask("POST", "/x", length=150_001), chunked("/x", *[b"x" * 50_000] * 4)])
async def test_a_body_beyond_what_its_taker_takes_is_refused(reception: Reception, data: bytes) -> None:
    client = await reception.connect()
    await client.send(data)
    status, body, _ = await client.answer()
    assert (status, b"150000 bytes" in body) == (413, True)
    assert await client.closed() == b""
    assert [guest.left for guest in reception.desk.guests] == [1]


async def test_bodies_that_wait_for_their_answer_still_count(reception: Reception) -> None:
    first, second, third = [await reception.connect() for _ in range(3)]
    await first.send(ask("POST", "/x", body=b"x" * 150_000))
    await second.send(ask("POST", "/x", length=150_000))
    _, reply = await reception.guest()
    await until(lambda: reception.server.budget.used == 300_000)
    await third.send(ask("POST", "/x", length=20_000))
    assert (await third.refused())[0] == 503
    reply.answer(200, [], b"")
    await until(lambda: reception.server.budget.used == 150_000)


async def test_an_answer_larger_than_the_socket_takes_comes_whole(reception: Reception) -> None:
    client = await reception.connect()
    await client.send(ask("GET", "/x") + ask("GET", "/y"))
    _, reply = await reception.guest()
    large = bytes(range(256)) * 40_000
    reply.answer(200, [], large)
    assert (await client.answer())[1] == large
    _, reply = await reception.guest(1)
    reply.answer(200, [], b"next")
    assert (await client.answer())[1] == b"next"


async def test_a_client_that_does_not_read_pauses_who_streams_to_it(reception: Reception) -> None:
    client = await reception.connect()
    client.writer.transport.pause_reading()  # type: ignore[attr-defined]
    await client.send(ask("GET", "/x"))
    _, reply = await reception.guest()
    resumed = asyncio.Event()
    reply.on_resume = resumed.set
    reply.begin(200, [], None)
    written = 0
    while not reply.paused:
        reply.write(b"x" * 100_000)
        written += 1
        assert written < 1000
        await asyncio.sleep(0)
    client.writer.transport.resume_reading()  # type: ignore[attr-defined]
    reader = asyncio.create_task(in_pieces(client))
    await asyncio.wait_for(resumed.wait(), limits.ANSWER)
    assert not reply.paused
    reply.end()
    assert sum(map(len, (await reader)[1])) == written * 100_000


async def test_a_client_that_never_reads_is_cut_off_and_who_streams_learns_it(reception: Reception) -> None:
    hurry(reception.server)
    client = await reception.connect()
    client.writer.transport.pause_reading()  # type: ignore[attr-defined]
    await client.send(ask("GET", "/x"))
    guest, reply = await reception.guest()
    reply.begin(200, [], None)
    reply.write(bytes(8_000_000))
    await until(lambda: guest.left == 1)
    assert not reception.server.open


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        pytest.param(b"", b"", id="says nothing"),
        pytest.param(b"POST /x HTTP/1.1\r\nHost: ", b"408", id="stops in the head"),
        pytest.param(ask("POST", "/x", body=b"x" * 100)[:-1], b"408", id="stops in a short body"),
        pytest.param(ask("POST", "/x", body=b"x" * 100_000)[:-1], b"408", id="stops in a long body"),
        pytest.param(chunked("/x", b"x", end=b""), b"408", id="stops between chunks"),
    ],
)
async def test_a_client_that_stops_is_not_waited_for(reception: Reception, sent: bytes, status: bytes) -> None:
    hurry(reception.server)
    client = await reception.connect()
    await client.send(sent)
    assert (await client.closed())[9:12] == status


async def test_a_body_may_take_longer_than_a_head(reception: Reception) -> None:
    hurry(reception.server)
    reception.server.limits = replace(reception.server.limits, uploading=60.0)
    body, head = await reception.connect(), await reception.connect()
    await body.send(ask("POST", "/echo", body=b"x" * 100)[:-1])
    await head.send(b"POST")
    assert (await head.closed())[9:12] == b"408"
    await body.send(b"x")
    assert (await body.answer())[0] == 200


async def test_a_request_that_waits_has_time_and_so_has_what_stands_behind_it(reception: Reception) -> None:
    hurry(reception.server)
    client = await reception.connect()
    await client.send(ask("GET", "/x") + ask("POST", "/echo", body=b"behind")[:-1])
    _, reply = await reception.guest()
    await asyncio.sleep(2 * reception.server.limits.waiting)
    reply.answer(200, [], b"late")
    assert (await client.answer())[1] == b"late"
    await asyncio.sleep(0.1)
    await client.send(b"d")
    assert (await client.answer())[:2] == (200, b"behind")


async def test_a_refusal_can_be_the_last_answer_of_its_connection(reception: Reception) -> None:
    client = await reception.connect()
    await client.send(ask("GET", "/x"))
    _, reply = await reception.guest()
    reply.refuse(HttpError(HTTPStatus.SERVICE_UNAVAILABLE, "last", closes=True))
    status, body, headers = await client.answer()
    assert (status, body, headers["connection"]) == (503, b'{"error":"last"}', "close")
    assert await client.closed() == b""


async def test_stopping_waits_for_the_answers_and_closes(reception: Reception) -> None:
    client, streamed = await reception.connect(), await reception.connect()
    await client.send(ask("GET", "/x"))
    _, reply = await reception.guest()
    await streamed.send(ask("GET", "/x"))
    _, pieces = await reception.guest(1)
    pieces.begin(200, [], None)
    stopping = asyncio.create_task(reception.server.stop(limits.ANSWER))
    await asyncio.sleep(0.05)
    reply.answer(200, [], b"whole")
    pieces.write(b"to the end")
    pieces.end()
    assert (await client.answer())[2]["connection"] == "close"
    assert (await in_pieces(streamed))[1] == [b"to the end"]
    await asyncio.wait_for(stopping, limits.ANSWER)


@pytest.mark.parametrize(
    "headers",
    [
        ["Content-Length: 5", "Transfer-Encoding: chunked"],
        ["Transfer-Encoding: chunked", "Content-Length: 5"],
        ["Content-Length: 5", "Content-Length: 40"],
        ["Transfer-Encoding:"],
        ["Transfer-Encoding: gzip, chunked"],
        ["Host: y"],
    ],
)
async def test_a_request_whose_end_a_proxy_could_see_elsewhere_is_refused(
    reception: Reception, headers: list[str]
) -> None:
    client = await reception.connect()
    await client.send(ask("POST", "/echo", *headers) + b"0\r\n\r\n" + ask("POST", "/echo", body=b"hidden"))
    assert (await client.refused())[0] in (400, 501)
    assert reception.desk.guests == []


async def test_a_head_without_end_is_refused_before_it_costs_memory(reception: Reception) -> None:
    for begin in (b"GET /x HTTP/1.1\r\nX: ", chunked("/x", b"x", end=b"0\r\nX: "), chunked("/x")[:-5] + b"1;"):
        client = await reception.connect()
        await client.send(begin + b"x" * 100_000)
        assert (await client.refused())[0] == 431
