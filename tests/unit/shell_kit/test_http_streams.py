"""HTTP/2 over mutual TLS on real sockets: requests beside each other, and what holds as over HTTP/1.1."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio

from authorities import CLIENT, SERVER, Authority, put
from harness import limits
from hetserve_shell.http import handlers
from hetserve_shell.tls.certificates import read_certificates
from http_clients import IDLE, LIMITS, hurry, post, until
from secured_server import Secured, client, held_timers, secured_server, server

STREAMS = 8
REFUSED_STREAM, CANCEL = 7, 8
ANY = 2**31 - 1


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("pki"), "one")


@pytest_asyncio.fixture
async def secured(tmp_path: Path, authority: Authority, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Secured]:
    limits = replace(LIMITS, streams=STREAMS)
    async with secured_server(tmp_path / "tls", authority, monkeypatch, limits) as made:
        yield made


async def test_one_connection_serves_one_request_after_another(secured: Secured) -> None:
    client = await secured.connect_by_streams()
    for body in (b"a", b"", b"b" * 150_000, b"c" * 199_000):
        answer = await client.call("/echo", body)
        assert (answer.status, answer.body) == (200, b'"' + body + b'"')
        assert answer.headers["content-type"] == "application/json"
        assert answer.headers["content-length"] == str(len(answer.body))
    assert len(secured.server.open) == 1


async def test_a_client_that_speaks_http_1_alone_is_served_as_before(secured: Secured) -> None:
    plain = await secured.connect(client(secured.authority, CLIENT, "http/1.1"))
    await plain.send(post("/echo", b"x"))
    assert (await plain.answer())[1] == b'"x"'


async def test_an_answer_that_is_waited_for_holds_up_no_other(secured: Secured) -> None:
    client = await secured.connect_by_streams()
    held = [await client.ask("/wait", str(number).encode()) for number in range(STREAMS - 1)]
    for _ in range(5):
        assert (await client.call("/echo", b"beside")).body == b'"beside"'
    secured.gate.set()
    assert [(await client.answer(stream)).body for stream in held] == [f'"{n}"'.encode() for n in range(STREAMS - 1)]


async def test_what_one_read_brings_is_answered_whole_and_in_turns(secured: Secured) -> None:
    client = await secured.connect_by_streams()
    streams = []
    for number in range(STREAMS):
        body = str(number).encode()
        streams.append(client.start("/echo", ("content-length", str(len(body)))))
        client.h2.send_data(streams[-1], body, end_stream=True)
    client.flush()
    assert [(await client.answer(stream)).body for stream in streams] == [b'"%d"' % n for n in range(STREAMS)]
    assert secured.seen == [b"%d" % n for n in range(STREAMS)]


@pytest.mark.parametrize("wide", [False, True])
async def test_a_large_answer_arrives_whole_through_the_windows_of_the_client(secured: Secured, wide: bool) -> None:
    client = await secured.connect_by_streams()
    if wide:  # then the socket alone says when there is room
        client.widen()
    assert len((await client.call("/much")).body) == 8_000_000


@pytest.mark.parametrize(
    ("path", "body", "headers", "status", "words"),
    [
        ("/nowhere", b"", (), 404, "/echo, /wait"),
        ("/echo", b"bad", (), 400, "bad"),
        ("/fail", b"why", (), 500, "RuntimeError: why"),
        ("/echo", b"x", (("expect", "a-miracle"),), 417, "100-continue"),
    ],
)
async def test_a_refusal_is_said_in_words_and_costs_its_request_alone(
    secured: Secured, path: str, body: bytes, headers: tuple[tuple[str, str], ...], status: int, words: str
) -> None:
    client = await secured.connect_by_streams()
    held = await client.ask("/wait", b"under way")
    answer = await client.call(path, body, *headers)
    assert (answer.status, words in answer.error) == (status, True)
    secured.gate.set()
    assert (await client.answer(held)).body == b'"under way"'
    assert (await client.call("/echo", b"next")).body == b'"next"'


async def test_what_is_on_its_way_of_a_refused_upload_costs_no_call_under_way(secured: Secured) -> None:
    client = await secured.connect_by_streams()
    held = await client.ask("/wait", b"under way")
    upload = client.start("/echo", ("content-length", str(LIMITS.body + 1)))
    for _ in range(12):
        client.h2.send_data(upload, bytes(16384))
    client.flush()
    assert (await client.answer(upload)).status == 413
    secured.gate.set()
    assert (await client.answer(held)).body == b'"under way"'
    assert (await client.call("/echo", bytes(100_000))).status == 200, "what was thrown away takes no window"


async def test_what_is_on_its_way_behind_a_last_answer_costs_no_call_under_way(secured: Secured) -> None:
    client = await secured.connect_by_streams()
    held = await client.ask("/wait", b"under way")
    await until(lambda: bool(secured.begun))
    next(iter(secured.server.open)).finish()
    upload = client.start("/echo")
    for _ in range(12):
        client.h2.send_data(upload, bytes(16384))
    client.flush()
    assert (await client.answer(upload)).reset == REFUSED_STREAM
    secured.gate.set()
    assert (await client.answer(held)).body == b'"under way"'


async def test_who_asks_for_no_path_is_answered(secured: Secured) -> None:
    client = await secured.connect_by_streams()
    stream = client.h2.get_next_available_stream_id()
    client.h2.send_headers(stream, [(":method", "CONNECT"), (":authority", "extender:443")], end_stream=True)
    client.flush()
    answer = await client.answer(stream)
    assert (answer.status, "no such path" in answer.error) == (404, True)
    assert (await client.call("/echo", b"next")).body == b'"next"'


async def test_another_method_is_refused_with_those_that_are_served(secured: Secured) -> None:
    client = await secured.connect_by_streams()
    stream = client.start("/echo", method="GET", end=True)
    client.flush()
    found = await client.answer(stream)
    assert (found.status, found.headers["allow"]) == (405, "POST")


@pytest.mark.parametrize("declared", [True, False])
async def test_a_request_that_is_too_large_is_refused_before_its_end(secured: Secured, declared: bool) -> None:
    client = await secured.connect_by_streams()
    headers = [("content-length", str(LIMITS.body + 1))] if declared else []
    stream = client.start("/echo", *headers)
    client.flush()
    if not declared:
        await client.send(stream, bytes(LIMITS.body), end=False)
        client.h2.send_data(stream, b"x")
        client.flush()
    answer = await client.answer(stream)
    assert (answer.status, "200000 bytes" in answer.error) == (413, True)
    await until(lambda: secured.server.budget.used == 0)
    assert (await client.call("/echo", b"next")).status == 200


async def test_many_large_requests_at_once_are_refused_and_not_kept(secured: Secured) -> None:
    hurry(secured.server)
    clients = [await secured.connect_by_streams() for _ in range(3)]
    streams = []
    for one in clients:
        streams.append(one.start("/echo"))
        await one.send(streams[-1], bytes(150_000), end=False)
    answers = [await one.answer(stream) for one, stream in zip(clients, streams, strict=True)]
    assert (503, "too many large requests at once") in {(one.status, one.error) for one in answers}
    assert secured.server.budget.used == 0


async def test_a_request_that_stops_is_refused_in_time_and_costs_no_other(secured: Secured) -> None:
    hurry(secured.server)
    client = await secured.connect_by_streams()
    stream = client.start("/echo", ("content-length", "5"))
    client.h2.send_data(stream, b"half")
    client.flush()
    held = await client.ask("/wait", b"handlers have time limits of their own")
    answer = await client.answer(stream)
    assert (answer.status, "0.4 s" in answer.error) == (408, True)
    secured.gate.set()
    assert (await client.answer(held)).status == 200


async def test_a_head_that_is_too_large_ends_the_connection(secured: Secured) -> None:
    client = await secured.connect_by_streams()
    client.start("/echo", *((f"x-{number}", "y" * 500) for number in range(20)))
    client.flush()
    await client.until_last()
    assert secured.seen == []


async def test_a_client_that_waits_to_be_told_is_told_to_go_on(secured: Secured) -> None:
    client = await secured.connect_by_streams()
    stream = client.start("/echo", ("expect", "100-continue"), ("content-length", "1"))
    client.flush()
    await client.until(lambda: stream in client.told_to_go_on)
    await client.send(stream, b"x")
    assert (await client.answer(stream)).body == b'"x"'


async def test_texts_and_empty_answers_arrive(secured: Secured) -> None:
    client = await secured.connect_by_streams()
    text, empty = await client.call("/text"), await client.call("/empty")
    assert (text.status, text.body, text.headers["content-type"]) == (202, b"ab", "text/plain; charset=utf-8")
    assert (empty.status, empty.body, empty.headers["content-length"]) == (200, b"", "0")


async def test_requests_that_are_given_up_are_forgotten(secured: Secured) -> None:
    """Also in the read that brings them, and before their turn."""
    client = await secured.connect_by_streams()
    for rounds in range(20):
        for _ in range(STREAMS):
            stream = client.start("/echo", ("content-length", "1"))
            client.h2.send_data(stream, b"x", end_stream=rounds % 2 == 0)
            client.h2.reset_stream(stream, CANCEL)
    client.flush()
    assert (await client.call("/echo", b"next")).body == b'"next"'


async def test_giving_requests_up_starts_no_more_work_than_may_go_on(
    secured: Secured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handlers, "UNDER_WAY", STREAMS)
    client = await secured.connect_by_streams()
    for _ in range(5):
        streams = [await client.ask("/wait", b"x") for _ in range(STREAMS)]
        await asyncio.sleep(0.03)  # until they have begun
        for stream in streams:
            client.reset(stream)
    refused = await client.call("/wait", b"one too many")
    assert (refused.status, "8 requests are under way" in refused.error) == (503, True)
    assert (await client.call("/echo", b"at once")).body == b'"at once"'
    assert len(secured.begun) == STREAMS, "who gives requests up at once starts any number of binds"
    secured.gate.set()
    while (again := await client.call("/wait", b"again")).status != 200:
        assert again.status == 503, "who was refused is never served again"


async def test_who_is_let_in_while_authorities_change_is_parted_from_as_well(secured: Secured) -> None:
    """The handshake of a client that they do not know any more had begun before."""
    received, to_send = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = client(secured.authority, CLIENT, "h2").wrap_bio(received, to_send, server_hostname=SERVER)
    reader, writer = await asyncio.open_connection("127.0.0.1", secured.port)
    with suppress(ssl.SSLWantReadError):
        ours.do_handshake()
    writer.write(to_send.read())
    received.write(await reader.read(65536))
    secured.server.part()
    ours.do_handshake()
    writer.write(to_send.read())
    async with asyncio.timeout(limits.ANSWER):
        while await reader.read(65536):
            pass
    writer.close()


async def test_a_request_behind_the_last_answer_is_refused_so_that_the_client_asks_elsewhere(secured: Secured) -> None:
    client = await secured.connect_by_streams()
    held, last = await client.ask("/wait", b"held"), await client.ask("/wait", b"x")
    await until(lambda: len(secured.begun) == 2)
    connection = next(iter(secured.server.open))
    connection.finish()
    late = await client.ask("/echo", b"late")
    assert (await client.answer(late)).reset == REFUSED_STREAM
    secured.gate.set()
    assert {(await client.answer(one)).body for one in (held, last)} == {b'"held"', b'"x"'}
    assert b"late" not in secured.seen
    await client.until_closed()


async def test_parting_serves_what_is_on_its_way_and_closes(secured: Secured) -> None:
    client, idle = await secured.connect_by_streams(), await secured.connect_by_streams()
    held = await client.ask("/wait", b"held")
    await until(lambda: bool(secured.begun))
    secured.server.part()
    crossing = await client.ask("/echo", b"crossing")
    assert await client.until_last(1) == ANY
    assert (await client.answer(crossing)).body == b'"crossing"'
    assert await client.until_last(2) == crossing
    secured.gate.set()
    assert (await client.answer(held)).body == b'"held"'
    for one in (client, idle):
        await one.until_closed()
    assert (await (await secured.connect_by_streams()).call("/echo", b"new")).status == 200


async def test_other_authorities_end_connections_in_order(secured: Secured, authority: Authority) -> None:
    client = await secured.connect_by_streams()
    await client.call("/echo", b"1")
    put(secured.folder, server(authority, 1), authority, Authority(secured.folder.parent / "new", "other"))
    secured.rotation.look()
    await client.until_last(2)
    await client.until_closed()


async def test_a_certificate_that_ends_ends_its_connection_after_the_answer(
    secured: Secured, monkeypatch: pytest.MonkeyPatch
) -> None:
    leaf, timers = secured.authority.leaf(CLIENT), held_timers(monkeypatch)
    (read,) = read_certificates(leaf.pem)
    secured.rotation.wall = lambda: read.not_after - 1.0
    context = leaf.client(secured.authority.certificate)
    context.set_alpn_protocols(["h2"])
    client = await secured.connect_by_streams(context)
    stream = await client.ask("/wait", b"x")
    await until(lambda: bool(secured.begun))
    ((seconds, over),) = timers
    assert seconds == 1.0
    over()
    assert await client.until_last() == stream
    secured.gate.set()
    assert (await client.answer(stream)).body == b'"x"'
    await client.until_closed()


async def test_a_stop_finishes_what_has_begun(secured: Secured) -> None:
    client, idle = await secured.connect_by_streams(), await secured.connect_by_streams()
    stream = await client.ask("/wait", b"x")
    await until(lambda: bool(secured.begun))
    stopping = asyncio.create_task(secured.server.stop(10 * limits.ANSWER))
    await idle.until_closed()
    idle.writer.close()
    secured.gate.set()
    assert (await client.answer(stream)).body == b'"x"'
    await client.until_closed()
    client.writer.close()
    await asyncio.wait_for(stopping, limits.ANSWER)


async def test_a_client_that_says_nothing_or_nothing_more_is_not_kept(secured: Secured) -> None:
    hurry(secured.server)
    silent, served = await secured.connect_by_streams(), await secured.connect_by_streams()
    await served.call("/echo", b"x")
    start = asyncio.get_running_loop().time()
    await silent.until_closed()
    await served.until_closed()
    assert asyncio.get_running_loop().time() - start > IDLE / 2
    assert served.last == [1]


async def test_a_client_that_is_gone_leaves_nothing_behind(secured: Secured) -> None:
    client = await secured.connect_by_streams()
    await client.ask("/wait", b"x")
    client.start("/echo", ("content-length", "5"))
    client.flush()
    await until(lambda: bool(secured.begun))
    client.writer.transport.abort()
    secured.gate.set()
    await until(lambda: not len(secured.server.open))
    assert secured.seen == [b"x"]


async def test_a_client_that_says_h2_and_speaks_http_1_is_refused(secured: Secured) -> None:
    confused = await secured.connect(client(secured.authority, CLIENT, "h2"))
    await confused.send(post("/echo", b"x"))
    assert b"HTTP/1.1" not in await confused.closed()
    assert secured.seen == []
