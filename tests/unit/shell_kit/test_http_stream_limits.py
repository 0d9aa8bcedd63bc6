"""What one client of HTTP/2 can take from others: frames that ask for nothing, long reads, answers that it leaves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio
from h2.exceptions import ProtocolError
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

from authorities import Authority
from harness import limits
from hetserve_shell.http.frames import ClientFrames
from hetserve_shell.http.http2 import Http2Connection
from hetserve_shell.http.streams import Exchange
from http2_clients import Http2Client
from http_clients import LIMITS, hurry, until
from secured_server import Secured, secured_server

STREAMS = 8
CANCEL, ENHANCE_YOUR_CALM = 8, 11


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("pki"), "one")


@pytest_asyncio.fixture
async def secured(tmp_path: Path, authority: Authority, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Secured]:
    limits = replace(LIMITS, streams=STREAMS)
    async with secured_server(tmp_path / "tls", authority, monkeypatch, limits) as made:
        yield made


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


async def test_an_answer_that_the_client_does_not_take_is_given_up_and_holds_up_no_other(secured: Secured) -> None:
    secured.server.limits = replace(secured.server.limits, unread=0.4)
    client = await secured.connect_by_streams()
    client.takes = False
    client.h2.increment_flow_control_window(10_000_000)  # of the connection: each stream has its own
    stream = await client.ask("/much")
    assert (await client.call("/echo", b"beside")).body == b'"beside"'
    assert (await client.answer(stream)).reset == CANCEL
    assert (await client.call("/echo", b"after")).body == b'"after"'


async def test_an_answer_that_is_taken_byte_by_byte_is_given_up(secured: Secured) -> None:
    secured.server.limits = replace(secured.server.limits, unread=0.4)
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
    going = await one.ask("/much")
    await until(lambda: secured.server.unsent.used == 8_000_000)
    still = await other.ask("/much")
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
    secured.server.limits = replace(secured.server.limits, unread=1.0)
    client = await secured.connect_by_streams()
    stream = await client.ask("/much")
    await until(lambda: secured.server.unsent.used > 0)
    async with granting(client, stream, 20_000, every=0.02):  # some 8 s for all
        next(iter(secured.server.open)).finish()
        assert (await client.answer(stream)).reset == CANCEL
        await client.until_closed()


async def test_who_reads_slowly_outlives_no_end_of_the_connection(secured: Secured) -> None:
    """The windows are wide, so that the socket holds the answers back."""
    secured.server.limits = replace(secured.server.limits, unread=1.0)
    secured.server.unsent.limit = STREAMS * 8_000_000
    client = await secured.connect_by_streams()
    client.widen()
    for _ in range(STREAMS):
        await client.ask("/much")
    await until(lambda: secured.server.unsent.used > 0)
    next(iter(secured.server.open)).finish()
    taken = 0
    async with asyncio.timeout(limits.REACTION):
        while data := await client.reader.read(65536):
            taken += len(data)
            await asyncio.sleep(0.005)
    assert taken < STREAMS * 8_000_000, "all of it, for as long as that took"


async def test_a_client_that_reads_nothing_is_cut_off_and_holds_little(secured: Secured) -> None:
    hurry(secured.server)
    client = await secured.connect_by_streams()
    client.widen()
    client.writer.transport.pause_reading()  # type: ignore[attr-defined]
    for _ in range(STREAMS):
        await client.ask("/much")
    await until(lambda: len(secured.server.open) == 0)


@pytest.mark.parametrize("frame", [RstStreamFrame(1), WindowUpdateFrame(1, 1)], ids=["reset", "window"])
async def test_a_frame_of_a_request_that_is_over_costs_no_call_under_way(secured: Secured, frame: Frame) -> None:
    """The library says nothing of it, so that it could be taken for the begin of something."""
    client = await secured.connect_by_streams()
    await client.call("/echo", b"x")
    held = await client.ask("/wait", b"under way")
    await until(lambda: bool(secured.begun))
    secured.wait_only(waiting=0.1)
    client.writer.write(frame.serialize())
    await asyncio.sleep(0.3)
    secured.gate.set()
    assert (await client.answer(held)).body == b'"under way"'


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
    "a head without end": [HeadersFrame(1, b"\x00", flags=()), *[ContinuationFrame(1, bytes(16384))] * 10],
    "heads without end": [HeadersFrame(1, b"\x00", flags=())] * 2,
}


@pytest.mark.parametrize("flood", FLOODS.values(), ids=FLOODS)
async def test_frames_that_no_client_needs_harm_nobody_else(secured: Secured, flood: list[Frame]) -> None:
    bad, good = await secured.connect_by_streams(), await secured.connect_by_streams()
    bad.writer.transport.pause_reading()  # type: ignore[attr-defined]
    written = {id(frame): frame.serialize() for frame in flood}  # each once, as most are the same
    bad.writer.write(b"".join(written[id(frame)] for frame in flood))
    for _ in range(10):
        assert (await good.call("/echo", b"good")).body == b'"good"'
    await until(lambda: len(secured.server.open) == 1)


async def in_the_midst(secured: Secured) -> None:
    """Until a body has come in part."""
    async with asyncio.timeout(limits.ANSWER):
        while not secured.server.budget.used:  # noqa: ASYNC110  (in each turn of the loop)
            await asyncio.sleep(0)


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
    looks: list[int] = []
    real = Http2Connection._send

    def look(connection: Http2Connection, exchange: Exchange) -> None:
        looks.append(exchange.stream)
        real(connection, exchange)

    monkeypatch.setattr(Http2Connection, "_send", look)
    client.h2.increment_flow_control_window(2000)
    client.h2.data_to_send()  # said one by one:
    client.writer.write(WindowUpdateFrame(0, 1).serialize() * 2000)
    assert (await client.call("/empty")).status == 200
    assert STREAMS <= len(looks) < 2000, "each window costs a look at each answer"


@pytest.mark.parametrize("finished", [False, True])
async def test_what_waits_for_its_turn_is_kept_in_order(secured: Secured, finished: bool) -> None:
    client = await secured.connect_by_streams()
    body = b"".join(b"%d," % number for number in range(1500))
    stream = client.start("/echo", ("content-length", str(len(body))))
    for start in range(0, len(body), 5):
        client.h2.send_data(stream, body[start : start + 5], end_stream=start + 5 >= len(body))
    client.flush()
    if finished:
        await in_the_midst(secured)
        assert secured.server.budget.used < len(body)
        next(iter(secured.server.open)).finish()
    assert (await client.answer(stream)).body == b'"' + body + b'"'


async def test_no_more_is_read_while_frames_wait_for_their_turn(
    secured: Secured, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting: list[bool] = []
    real = ClientFrames.come

    def come(frames: ClientFrames, data: bytes, now: float) -> None:
        waiting.append(frames.left)
        real(frames, data, now)

    monkeypatch.setattr(ClientFrames, "come", come)
    client = await secured.connect_by_streams()
    stream = client.start("/echo")
    client.writer.write(client.h2.data_to_send() + DataFrame(stream, b"x").serialize() * 2000)
    await in_the_midst(secured)
    client.writer.write(DataFrame(stream, b"", flags=("END_STREAM",)).serialize())
    assert (await client.answer(stream)).body == b'"' + b"x" * 2000 + b'"'
    assert waiting
    assert True not in waiting


async def test_who_is_cut_off_while_its_frames_wait_is_listened_to_until_it_is_gone(secured: Secured) -> None:
    """Or a reset overtakes the last answers."""
    secured.server.limits = replace(secured.server.limits, lingering=60.0)
    client = await secured.connect_by_streams()
    client.writer.write(PingFrame(0, b"12345678").serialize() * 6000)
    await client.until_closed()
    client.writer.close()
    await until(lambda: not len(secured.server.open))


async def test_frames_that_come_in_halves_end_nothing(secured: Secured) -> None:
    secured.wait_only(waiting=1.5)
    client = await secured.connect_by_streams()
    await client.call("/echo", b"x")
    ping = PingFrame(0, b"12345678").serialize()
    client.writer.write(ping[:9])
    for _ in range(16):
        await asyncio.sleep(0.1)
        client.writer.write(ping[9:] + ping[:9])
    client.writer.write(ping[9:])
    assert (await client.call("/echo", b"after")).body == b'"after"'
    assert client.last == []


async def test_who_is_gone_while_its_frames_wait_leaves_nothing_behind(secured: Secured) -> None:
    client = await secured.connect_by_streams()
    stream = client.start("/echo")
    client.writer.write(client.h2.data_to_send() + DataFrame(stream, b"x").serialize() * 4000)
    await in_the_midst(secured)
    client.writer.transport.abort()
    await until(lambda: not len(secured.server.open))
    assert secured.server.budget.used == 0


async def test_a_frame_that_is_never_whole_costs_no_call_under_way(secured: Secured) -> None:
    client = await secured.connect_by_streams()
    held = await client.ask("/wait", b"under way")
    await until(lambda: bool(secured.begun))
    secured.wait_only(waiting=0.1)
    client.writer.write(b"\x00\x10\x00\x00\x00\x00\x00\x00\x03")
    assert await client.until_last() == held
    secured.gate.set()
    assert (await client.answer(held)).body == b'"under way"'
    await client.until_closed()


async def test_a_frame_that_is_too_large_or_never_whole_ends_its_connection(secured: Secured) -> None:
    """The library looks at a length only when all of the frame is there: 16 MiB that nobody counts."""
    large, slow = await secured.connect_by_streams(), await secured.connect_by_streams()
    for one in (large, slow):
        await one.call("/echo", b"x")
    large.writer.write(b"\xff\xff\xff\x00\x00\x00\x00\x00\x03" + bytes(100_000))
    await large.until_closed()
    slow.writer.write(b"\x00\x10\x00\x00\x00\x00\x00\x00\x03")
    await asyncio.sleep(0.05)  # until it has come
    hurry(secured.server)
    await slow.until_closed()
