"""HTTP/2 over mutual TLS on real sockets: requests beside each other, and what holds as over HTTP/1.1."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio
from h2.connection import H2Connection
from h2.exceptions import ProtocolError
from hpack import Encoder
from hyperframe.frame import (
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

from authorities import CLIENT, SERVER, Authority, put
from hetserve.base.certificates import read_certificates
from http2_clients import Http2Client
from http_clients import LIMITS, post, until
from secured_server import Secured, client, secured_server, server

STREAMS = 8
REFUSED_STREAM, CANCEL, ENHANCE_YOUR_CALM = 7, 8, 11
ANY = 2**31 - 1


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("pki"), "one")


@pytest_asyncio.fixture
async def secured(tmp_path: Path, authority: Authority, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Secured]:
    limits = replace(LIMITS, streams=STREAMS)
    async with secured_server(tmp_path / "tls", authority, monkeypatch, limits) as made:
        yield made


def patient(secured: Secured, waiting: float = 60.0) -> None:
    """No connection ends for the time that it takes, but for `waiting`."""
    secured.server.limits = replace(secured.server.limits, waiting=waiting, idle=60.0)


def widen(client: Http2Client) -> None:
    """Takes any answers, as far as its windows go."""
    client.h2.update_settings({4: 2**31 - 1})
    client.h2.increment_flow_control_window(2**31 - 1 - 65535)
    client.flush()


@asynccontextmanager
async def granting(client: Http2Client, stream: int, size: int, every: float) -> AsyncIterator[None]:
    """Takes so many bytes more of an answer, again and again, during the block."""

    async def grant() -> None:
        with suppress(ProtocolError):  # the answer is over
            while True:
                client.h2.increment_flow_control_window(size, stream)
                client.flush()
                await asyncio.sleep(every)

    client.takes = False
    client.h2.increment_flow_control_window(10_000_000)  # of the connection
    task = asyncio.create_task(grant())
    yield
    task.cancel()


async def test_one_connection_serves_one_request_after_another(secured: Secured) -> None:
    client = await secured.connect_by_streams()
    for body in (b"a", b"", b"b" * 150_000, b"c" * 199_000):
        answer = await client.call("/echo", body)
        assert (answer.status, answer.body) == (200, b'"' + body + b'"')
        assert answer.headers["content-type"] == "application/json"
        assert answer.headers["content-length"] == str(len(answer.body))
    assert secured.server.connections == 1


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
        widen(client)
    assert len((await client.call("/much")).body) == 8_000_000


async def test_an_answer_that_the_client_does_not_take_is_given_up_and_holds_up_no_other(secured: Secured) -> None:
    client = await secured.connect_by_streams()
    client.takes = False
    client.h2.increment_flow_control_window(10_000_000)  # of the connection: each stream has its own
    stream = await client.ask("/much")
    assert (await client.call("/echo", b"beside")).body == b'"beside"'
    assert (await client.answer(stream)).reset == CANCEL
    assert (await client.call("/echo", b"after")).body == b'"after"'


async def test_an_answer_that_is_taken_byte_by_byte_is_given_up(secured: Secured) -> None:
    client = await secured.connect_by_streams()
    stream = await client.ask("/much")
    async with granting(client, stream, 1, every=0.02):
        assert (await client.answer(stream)).reset == CANCEL


async def test_an_answer_that_is_taken_slowly_arrives(secured: Secured) -> None:
    secured.server.limits = replace(secured.server.limits, unread=1.0)
    client = await secured.connect_by_streams()
    stream = await client.ask("/some")
    async with granting(client, stream, 20_000, every=0.2):  # of the 134,465 bytes behind the first window
        answer = await client.answer(stream)
    assert (len(answer.body), answer.ended) == (200_000, True)


async def test_answers_that_nobody_takes_are_bounded_over_all_connections(secured: Secured) -> None:
    """The one that has stood still longest goes."""
    secured.server.unsent.limit = 20_000_000
    secured.server.limits = replace(secured.server.limits, unread=60.0)
    one, other = await secured.connect_by_streams(), await secured.connect_by_streams()
    one.takes = other.takes = False
    going, still = await one.ask("/much"), await other.ask("/much")
    await until(lambda: secured.server.unsent.used == 16_000_000)
    one.h2.increment_flow_control_window(100_000)
    one.h2.increment_flow_control_window(100_000, going)
    one.flush()
    await one.until(lambda: len(one.answers[going].body) > 150_000)
    await other.ask("/much")
    assert (await other.answer(still)).reset == ENHANCE_YOUR_CALM
    assert secured.server.unsent.used == 16_000_000
    assert (await one.call("/empty")).status == 200
    assert one.answers[going].reset is None


async def test_who_takes_an_answer_slowly_outlives_no_end_of_the_connection(secured: Secured) -> None:
    """Such as the end of its certificate."""
    client = await secured.connect_by_streams()
    stream = await client.ask("/much")
    await until(lambda: secured.server.unsent.used > 0)
    async with granting(client, stream, 20_000, every=0.02):  # some 8 s for all
        next(iter(secured.server.admission)).finish()
        assert (await client.answer(stream)).reset == CANCEL
        await client.until_closed()


async def test_who_reads_slowly_outlives_no_end_of_the_connection(secured: Secured) -> None:
    """The windows are wide, so that the socket holds the answers back."""
    client = await secured.connect_by_streams()
    widen(client)
    for _ in range(4):
        await client.ask("/much")
    await until(lambda: secured.server.unsent.used > 0)
    next(iter(secured.server.admission)).finish()
    async with asyncio.timeout(5.0):
        while secured.server.connections:
            await client.reader.read(65536)
            await asyncio.sleep(0.02)  # some 10 s for all


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
    await client.call("/last")
    upload = client.start("/echo")
    for _ in range(12):
        client.h2.send_data(upload, bytes(16384))
    client.flush()
    assert (await client.answer(upload)).reset == REFUSED_STREAM
    secured.gate.set()
    assert (await client.answer(held)).body == b'"under way"'


@pytest.mark.parametrize(
    "frame", [RstStreamFrame, lambda stream: WindowUpdateFrame(stream, 1)], ids=["reset", "window"]
)
async def test_a_frame_of_a_request_that_is_over_costs_no_call_under_way(
    secured: Secured, frame: Callable[[int], Frame]
) -> None:
    """Nothing is said of it, so that it could be taken for the begin of something."""
    patient(secured, waiting=0.1)
    client = await secured.connect_by_streams()
    over = await client.ask("/echo", b"x")
    await client.answer(over)
    held = await client.ask("/wait", b"under way")
    client.writer.write(frame(over).serialize())
    await asyncio.sleep(0.3)
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
    clients = [await secured.connect_by_streams() for _ in range(3)]
    streams = []
    for one in clients:
        streams.append(one.start("/echo"))
        await one.send(streams[-1], bytes(150_000), end=False)
    answers = [await one.answer(stream) for one, stream in zip(clients, streams, strict=True)]
    assert (503, "too many large requests at once") in {(one.status, one.error) for one in answers}
    assert secured.server.budget.used == 0


async def test_a_request_that_stops_is_refused_in_time_and_costs_no_other(secured: Secured) -> None:
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


async def test_giving_requests_up_starts_no_more_work_than_streams_would(secured: Secured) -> None:
    client = await secured.connect_by_streams()
    for _ in range(5):
        streams = [await client.ask("/wait", b"x") for _ in range(STREAMS)]
        await asyncio.sleep(0.03)  # until they have begun
        for stream in streams:
            client.reset(stream)
    last = await client.ask("/echo", b"last")
    await asyncio.sleep(0.05)
    assert len(secured.begun) <= STREAMS, "who gives requests up at once starts any number of binds"
    secured.gate.set()
    assert (await client.answer(last)).body == b'"last"'


async def test_an_answer_that_is_the_last_says_so_and_what_comes_later_can_be_asked_for_elsewhere(
    secured: Secured,
) -> None:
    client = await secured.connect_by_streams()
    last, beside = await client.ask("/wait-last", b"x"), await client.ask("/wait", b"beside")
    await until(lambda: len(secured.begun) == 2)
    secured.gate.set()
    assert (await client.answer(last)).body == b'"x"'
    assert (await client.answer(beside)).body == b'"beside"', "it had begun"
    assert client.last == [beside], "it was said with the last answer"
    await client.until_closed()


async def test_a_last_answer_costs_no_request_of_the_same_read_its_own(secured: Secured) -> None:
    client = await secured.connect_by_streams()
    streams = []
    for path in ("/last", "/echo"):  # the first is whole before the second begins
        streams.append(client.start(path, ("content-length", "1")))
        client.h2.send_data(streams[-1], b"x", end_stream=True)
    client.flush()
    assert [(await client.answer(stream)).body for stream in streams] == [b"x", b'"x"']
    assert client.last == [streams[-1]]
    await client.until_closed()


async def test_who_is_let_in_while_authorities_change_is_parted_from_as_well(secured: Secured) -> None:
    """The handshake of a client that they do not know any more had begun before."""
    patient(secured)
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
    async with asyncio.timeout(5.0):
        while await reader.read(65536):
            pass
    writer.close()


async def test_a_request_behind_the_last_answer_is_refused_so_that_the_client_asks_elsewhere(secured: Secured) -> None:
    client = await secured.connect_by_streams()
    held, last = await client.ask("/wait", b"held"), await client.ask("/wait-last", b"x")
    await until(lambda: len(secured.begun) == 2)
    connection = next(iter(secured.server.admission))
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


async def test_a_certificate_that_ends_ends_its_connection_after_the_answer(secured: Secured) -> None:
    leaf = secured.authority.leaf(CLIENT)
    (read,) = read_certificates(leaf.pem)
    secured.rotation.wall = lambda: read.not_after - 1.0
    context = leaf.client(secured.authority.certificate)
    context.set_alpn_protocols(["h2"])
    client = await secured.connect_by_streams(context)
    stream = await client.ask("/wait", b"x")
    assert await client.until_last() == stream
    secured.gate.set()
    assert (await client.answer(stream)).body == b'"x"'
    await client.until_closed()


async def test_a_stop_finishes_what_has_begun(secured: Secured) -> None:
    client, idle = await secured.connect_by_streams(), await secured.connect_by_streams()
    stream = await client.ask("/wait", b"x")
    await until(lambda: bool(secured.begun))
    stopping = asyncio.create_task(secured.server.stop(5.0))
    await idle.until_closed()
    idle.writer.close()
    secured.gate.set()
    assert (await client.answer(stream)).body == b'"x"'
    await client.until_closed()
    client.writer.close()
    await asyncio.wait_for(stopping, 1.0)


async def test_a_client_that_says_nothing_or_nothing_more_is_not_kept(secured: Secured) -> None:
    silent, served = await secured.connect_by_streams(), await secured.connect_by_streams()
    await served.call("/echo", b"x")
    start = asyncio.get_running_loop().time()
    await silent.until_closed()
    await served.until_closed()
    assert asyncio.get_running_loop().time() - start > LIMITS.idle / 2
    assert served.last == [1]


async def test_a_client_that_is_gone_leaves_nothing_behind(secured: Secured) -> None:
    client = await secured.connect_by_streams()
    await client.ask("/wait", b"x")
    client.start("/echo", ("content-length", "5"))
    client.flush()
    await until(lambda: bool(secured.begun))
    client.writer.transport.abort()
    secured.gate.set()
    await until(lambda: not secured.server.connections)
    assert secured.seen == [b"x"]


async def test_a_client_that_reads_nothing_is_cut_off_and_holds_little(secured: Secured) -> None:
    client = await secured.connect_by_streams()
    widen(client)
    client.writer.transport.pause_reading()  # type: ignore[attr-defined]
    for _ in range(STREAMS):
        await client.ask("/much")
    await until(lambda: secured.server.connections == 0)


def head(path: str, *fields: tuple[str, str]) -> bytes:
    return Encoder().encode([(":method", "POST"), (":path", path), (":scheme", "https"), (":authority", "x"), *fields])


OVER = HeadersFrame(1, head("/nowhere"), flags=("END_HEADERS",))
"""Its request is refused before it is whole."""
FLOODS: dict[str, list[Frame]] = {
    "pings": [PingFrame(0, b"12345678")] * 20_000,
    "settings": [SettingsFrame(0)] * 20_000,
    "windows": [WindowUpdateFrame(0, 1)] * 20_000,
    "priorities": [PriorityFrame(3, depends_on=1)] * 20_000,
    "data without a stream": [DataFrame(1, b"x")],
    "a window beyond all": [WindowUpdateFrame(0, 2**31 - 1)] * 2,
    "a head that is none": [HeadersFrame(1, b"\xff\xff\xff", flags=("END_HEADERS",))],
    "an end": [GoAwayFrame(0)],
    "empty data": [HeadersFrame(1, head("/wait"), flags=("END_HEADERS",)), *[DataFrame(1, b"")] * 20_000],
    "data of a request that is over": [OVER, *[DataFrame(1, b"x")] * 20_000],
    "windows of a request that is over": [OVER, *[WindowUpdateFrame(1, 1)] * 20_000],
    "heads of a request that is over": [OVER, *[HeadersFrame(1, b"\x82", flags=("END_HEADERS",))] * 20_000],
    "heads without end": [HeadersFrame(1, b"\x00", flags=())] * 2,
}


@pytest.mark.parametrize("flood", FLOODS.values(), ids=FLOODS)
async def test_frames_that_no_client_needs_harm_nobody_else(secured: Secured, flood: list[Frame]) -> None:
    patient(secured)
    bad, good = await secured.connect_by_streams(), await secured.connect_by_streams()
    bad.writer.transport.pause_reading()  # type: ignore[attr-defined]
    bad.writer.write(b"".join(frame.serialize() for frame in flood))
    for _ in range(10):
        assert (await good.call("/echo", b"good")).body == b'"good"'
    await until(lambda: secured.server.connections == 1)


def requests(count: int, *then: Callable[[int], Frame]) -> list[Frame]:
    """Requests with full heads, and what comes of each next."""
    block = head("/nowhere", *[("x", "")] * 80)
    return [
        frame(stream)
        for stream in range(1, 2 * count, 2)
        for frame in (lambda one: HeadersFrame(one, block, flags=("END_HEADERS",)), *then)
    ]


LONG: dict[str, list[Frame]] = {
    "windows": [WindowUpdateFrame(0, 1)] * 4000,
    "full heads": requests(300, RstStreamFrame),
    "a body in crumbs": [HeadersFrame(1, head("/echo"), flags=("END_HEADERS",)), *[DataFrame(1, b"x")] * 4000],
}


@pytest.mark.parametrize("frames", LONG.values(), ids=LONG)
async def test_a_read_of_many_frames_is_heard_in_turns(secured: Secured, frames: list[Frame]) -> None:
    patient(secured)
    long, good = await secured.connect_by_streams(), await secured.connect_by_streams()
    long.writer.transport.pause_reading()  # type: ignore[attr-defined]
    end = HeadersFrame(1001, head("/echo"), flags=("END_HEADERS", "END_STREAM"))
    long.writer.write(b"".join(frame.serialize() for frame in [*frames, end]))
    while b"" not in secured.seen:
        await good.call("/echo", b"beside")
    assert secured.seen.index(b"") > 3, "others wait until all is heard"


async def test_many_windows_at_once_are_looked_at_once(secured: Secured, monkeypatch: pytest.MonkeyPatch) -> None:
    client = await secured.connect_by_streams()
    client.takes = False
    for _ in range(STREAMS - 1):
        await client.ask("/some")
    await client.until(lambda: sum(len(one.body) for one in client.answers.values()) == 65535)
    looks = []
    real = H2Connection.local_flow_control_window
    monkeypatch.setattr(
        H2Connection, "local_flow_control_window", lambda h2, stream: looks.append(stream) or real(h2, stream)
    )
    stream = max(client.answers)
    client.writer.write(WindowUpdateFrame(stream, 1).serialize() * 2000)
    assert (await client.call("/empty")).status == 200
    assert len(looks) < 2000, "each window costs a look at each answer"


@pytest.mark.parametrize("finished", [False, True])
async def test_what_waits_for_its_turn_is_kept_in_order(secured: Secured, finished: bool) -> None:
    client = await secured.connect_by_streams()
    body = b"".join(b"%d," % number for number in range(1500))
    stream = client.start("/echo", ("content-length", str(len(body))))
    for start in range(0, len(body), 5):
        client.h2.send_data(stream, body[start : start + 5], end_stream=start + 5 >= len(body))
    client.flush()
    if finished:
        while not secured.server.budget.used:  # noqa: ASYNC110  (in the midst of it)
            await asyncio.sleep(0)
        assert secured.server.budget.used < len(body)
        next(iter(secured.server.admission)).finish()
    assert (await client.answer(stream)).body == b'"' + body + b'"'


async def test_who_is_gone_while_its_frames_wait_leaves_nothing_behind(secured: Secured) -> None:
    client = await secured.connect_by_streams()
    stream = client.start("/echo")
    client.writer.write(client.h2.data_to_send() + DataFrame(stream, b"x").serialize() * 4000)
    while not secured.server.budget.used:  # noqa: ASYNC110  (in the midst of it)
        await asyncio.sleep(0)
    client.writer.transport.abort()
    await until(lambda: not secured.server.connections)
    assert secured.server.budget.used == 0


async def test_a_frame_that_is_never_whole_costs_no_call_under_way(secured: Secured) -> None:
    patient(secured, waiting=0.1)
    client = await secured.connect_by_streams()
    held = await client.ask("/wait", b"under way")
    client.writer.write(b"\x00\x10\x00\x00\x00\x00\x00\x00\x03")
    assert await client.until_last() == held
    secured.gate.set()
    assert (await client.answer(held)).body == b'"under way"'
    await client.until_closed()


async def test_a_frame_that_is_too_large_or_never_whole_ends_its_connection(secured: Secured) -> None:
    """The library looks at a length only when all of the frame is there: 16 MiB that nobody counts."""
    patient(secured)
    large, slow = await secured.connect_by_streams(), await secured.connect_by_streams()
    for one in (large, slow):
        await one.call("/echo", b"x")
    large.writer.write(b"\xff\xff\xff\x00\x00\x00\x00\x00\x03" + bytes(100_000))
    await large.until_closed()
    slow.writer.write(b"\x00\x10\x00\x00\x00\x00\x00\x00\x03")
    await asyncio.sleep(0.05)  # until it has come
    patient(secured, waiting=LIMITS.waiting)
    await slow.until_closed()


async def test_a_client_that_says_h2_and_speaks_http_1_is_refused(secured: Secured) -> None:
    confused = await secured.connect(client(secured.authority, CLIENT, "h2"))
    await confused.send(post("/echo", b"x"))
    assert b"HTTP/1.1" not in await confused.closed()
    assert secured.seen == []
