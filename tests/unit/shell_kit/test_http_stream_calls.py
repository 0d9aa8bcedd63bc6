"""Calls over HTTP/2 to a server that a test plays by the frame."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

import pytest
from h2 import events
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.settings import SettingCodes
from hpack import Encoder
from hyperframe.frame import DataFrame, GoAwayFrame

from harness import limits
from hetserve.base.failures import Failure
from hetserve_shell.http.calls import Call, Upstream
from hetserve_shell.http.stream_calls import StreamConnection
from hetserve_shell.http.takers import Headers

HEAD = [(b":method", b"POST"), (b":scheme", b"http"), (b":path", b"/x"), (b":authority", b"a")]
WELL = [(":status", "200"), ("x", "y")]
ENDED = [("grpc-status", "0")]


@dataclass
class Heard:
    status: int = 0
    headers: Headers = ()
    body: bytes = b""
    trailers: Headers = ()
    failure: Failure | None = None
    reason: str = ""
    done: asyncio.Event = field(default_factory=asyncio.Event)
    call: Call | None = None

    def on_head(self, status: int, headers: Headers) -> None:
        self.status, self.headers = status, headers

    def on_piece(self, piece: bytes) -> None:
        self.body += piece

    def on_end(self, trailers: Headers = ()) -> None:
        self.trailers = trailers
        self.done.set()

    def on_failed(self, failure: Failure, reason: str) -> None:
        self.failure, self.reason = failure, reason
        self.done.set()


class Played:
    """The server's side of one connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, window: int) -> None:
        self.reader, self.writer = reader, writer
        self.h2 = H2Connection(H2Configuration(client_side=False))
        self.h2.initiate_connection()
        if window:
            self.h2.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: window})
        self.flush()
        self.body = b""
        self._found: list[events.Event] = []

    def flush(self) -> None:
        self.writer.write(self.h2.data_to_send())

    async def request(self) -> int:
        """The stream of the next request, once it is whole; its windows are kept open."""
        self.body = b""
        while True:
            while self._found:
                event = self._found.pop(0)
                if isinstance(event, events.DataReceived):
                    self.body += event.data
                    self.h2.acknowledge_received_data(event.flow_controlled_length or 0, event.stream_id)
                    self.flush()
                elif isinstance(event, events.StreamEnded):
                    return event.stream_id
            data = await self.reader.read(65536)
            if not data:
                raise ConnectionError
            self._found += self.h2.receive_data(data)
            self.flush()

    def answer(self, stream: int, body: bytes = b"answer", trailers: list[tuple[str, str]] | None = None) -> None:
        self.h2.send_headers(stream, WELL)
        self.h2.send_data(stream, body)
        self.h2.send_headers(stream, trailers or ENDED, end_stream=True)
        self.flush()

    def part(self, last: int) -> None:
        self.writer.write(GoAwayFrame(0, last_stream_id=last).serialize())


@dataclass
class Peer:
    upstream: Upstream[Headers]
    connections: int = 0

    async def told(self, body: bytes = b"body") -> Heard:
        heard = Heard()
        heard.call = self.upstream.send(HEAD, body, heard)
        async with asyncio.timeout(limits.ANSWER):
            await heard.done.wait()
        return heard


@asynccontextmanager
async def serving(play: Callable[[Played, int], Awaitable[None]], window: int = 0) -> AsyncIterator[Peer]:
    """play: is given every connection, and its number."""
    made: Peer
    writers = []

    async def begin(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        made.connections += 1
        writers.append(writer)
        try:
            await play(Played(reader, writer, window), made.connections)
        except ConnectionError:
            writer.close()

    server = await asyncio.start_server(begin, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()[:2]
    made = Peer(Upstream(host, port, connects=StreamConnection))
    try:
        yield made
    finally:
        made.upstream.close()
        server.close()
        for writer in writers:
            writer.transport.abort()


async def _answers(played: Played, _number: int) -> None:
    while True:
        played.answer(await played.request())


async def test_answers_come_with_trailers_one_by_one_on_one_connection() -> None:
    async with serving(_answers) as peer:
        for _ in range(3):
            heard = await peer.told()
            assert (heard.status, heard.body, heard.failure) == (200, b"answer", None)
            assert (list(heard.headers), list(heard.trailers)) == ([(b"x", b"y")], [(b"grpc-status", b"0")])
        assert peer.connections == 1


@pytest.mark.parametrize("window", [0, 100, 1 << 20])
async def test_a_large_body_goes_as_far_as_the_server_opens_its_windows(window: int) -> None:
    body = bytes(range(256)) * 1200
    seen = []

    async def play(played: Played, _number: int) -> None:
        stream = await played.request()
        seen.append(played.body)
        played.answer(stream)

    async with serving(play, window) as peer:
        assert (await peer.told(body)).body == b"answer"
        assert seen == [body]


async def test_a_server_that_parts_still_answers_and_is_asked_no_more() -> None:
    async def play(played: Played, _number: int) -> None:
        stream = await played.request()
        played.part(stream)
        played.answer(stream)
        await played.request()

    async with serving(play) as peer:
        for _ in range(2):
            assert (await peer.told()).body == b"answer"
        assert peer.connections == 2


async def test_a_connection_that_has_had_all_its_streams_is_left() -> None:
    async with serving(_answers) as peer:
        await peer.told()
        (kept,) = peer.upstream._kept._idle
        assert isinstance(kept, StreamConnection)
        kept._stream = 2**31 - 3
        for _ in range(3):
            assert (await peer.told()).body == b"answer"
        assert peer.connections == 2


@pytest.mark.parametrize("how", ["refused", "beyond the last"])
async def test_what_a_server_says_it_has_not_begun_was_not_carried_out(how: str) -> None:
    async def play(played: Played, _number: int) -> None:
        stream = await played.request()
        if how == "refused":
            played.h2.reset_stream(stream, 7)
            played.flush()
        else:
            played.part(0)

    async with serving(play) as peer:
        assert (await peer.told()).failure is Failure.CLOSED_UNANSWERED


async def test_what_comes_behind_the_end_of_an_answer_gives_its_connection_to_one_call_alone() -> None:
    async def play(played: Played, number: int) -> None:
        stream = await played.request()
        for headers, is_end in ((WELL, False), (ENDED, True)):
            played.h2.send_headers(stream, headers, end_stream=is_end)
        behind = DataFrame(stream, b"more")
        behind.flags.add("END_STREAM")
        played.writer.write(played.h2.data_to_send() + (behind.serialize() if number == 1 else b""))
        while True:
            played.answer(await played.request())

    async with serving(play) as peer:
        await peer.told()
        both = await asyncio.gather(peer.told(), peer.told())
        assert {heard.failure for heard in both} == {None}
        assert peer.connections == 2


@pytest.mark.parametrize("after", [0, 1])
@pytest.mark.parametrize("how", ["reset", "closed", "head", "half"])
async def test_a_call_that_breaks_says_whether_it_may_have_been_carried_out(after: int, how: str) -> None:
    async def play(played: Played, _number: int) -> None:
        for _ in range(after):
            played.answer(await played.request())
        stream = await played.request()
        if how in {"head", "half"}:
            played.h2.send_headers(stream, WELL)
        if how == "half":
            played.h2.send_data(stream, b"hal")
        if how == "reset":
            played.h2.reset_stream(stream, 2)
        played.flush()
        await played.writer.drain()
        played.writer.close()

    async with serving(play) as peer:
        for _ in range(after):
            assert (await peer.told()).failure is None
        heard = await peer.told()
        # A reset is an answer of the server; a kept connection that ends unanswered had most likely ended before.
        early = after and how == "closed"
        assert heard.failure is (Failure.CLOSED_UNANSWERED if early else Failure.LOST)


async def test_who_answers_no_http2_is_lost() -> None:
    async def play(played: Played, _number: int) -> None:
        await played.request()
        played.writer.write(b"\0\0\1\1\4\0\0\0\1\xff")

    async with serving(play) as peer:
        assert (await peer.told()).failure is Failure.LOST


async def test_where_nobody_listens_nothing_is_sent() -> None:
    server = await asyncio.start_server(lambda _r, _w: None, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()[:2]
    server.close()
    await server.wait_closed()
    assert (await Peer(Upstream(host, port, connects=StreamConnection)).told()).failure is Failure.NOT_SENT


async def test_a_ping_on_an_idle_connection_is_answered_and_it_stays() -> None:
    pinged = asyncio.Event()

    async def play(played: Played, _number: int) -> None:
        played.answer(await played.request())
        played.h2.ping(b"12345678")
        played.flush()
        found: list[events.Event] = []
        while not any(isinstance(event, events.PingAckReceived) for event in found):
            found = played.h2.receive_data(await played.reader.read(65536))
        pinged.set()
        await _answers(played, 1)

    async with serving(play) as peer:
        await peer.told()
        async with asyncio.timeout(limits.ANSWER):
            await pinged.wait()
        assert (await peer.told()).body == b"answer"
        assert peer.connections == 1


async def test_a_call_that_is_cancelled_ends_its_connection_unheard() -> None:
    gone = asyncio.Event()

    async def play(played: Played, _number: int) -> None:
        await played.request()
        heard.call.cancel()  # type: ignore[union-attr]
        with suppress(ConnectionError):
            await played.reader.read()
        gone.set()

    async with serving(play) as peer:
        heard = Heard()
        heard.call = peer.upstream.send(HEAD, b"x", heard)
        async with asyncio.timeout(limits.ANSWER):
            await gone.wait()
        assert not heard.done.is_set()


async def test_an_answer_before_all_of_the_body_has_gone_is_heard() -> None:
    async def play(played: Played, _number: int) -> None:
        data = await played.reader.read(65536)
        found = played.h2.receive_data(data)
        while not any(isinstance(event, events.RequestReceived) for event in found):
            found = played.h2.receive_data(await played.reader.read(65536))
        played.answer(1, b"too large")
        await played.reader.read()

    async with serving(play) as peer:
        assert (await peer.told(bytes(500_000))).body == b"too large"


def raw(kind: int, flags: int, stream: int, content: bytes) -> bytes:
    return len(content).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big") + content


async def test_heads_may_come_in_parts_and_anything_may_be_padded() -> None:
    async def play(played: Played, _number: int) -> None:
        stream = await played.request()
        block = Encoder().encode([(b":status", b"200"), (b"x", b"y" * 50)])
        padded = bytes((3,)) + bytes(5) + block[:10] + bytes(3)
        played.writer.write(raw(1, 0x8 | 0x20, stream, padded) + raw(9, 0, stream, block[10:20]))
        played.writer.write(raw(9, 0x4, stream, block[20:]) + raw(0, 0x8, stream, b"\2body\0\0"))
        played.writer.write(raw(99, 0, stream, b"what nobody knows") + raw(0, 0x1, stream, b""))
        await played.reader.read()

    async with serving(play) as peer:
        heard = await peer.told()
        assert (heard.status, dict(heard.headers)[b"x"], heard.body) == (200, b"y" * 50, b"body")


@pytest.mark.parametrize("size", [100, 5_000_000])
async def test_an_answer_of_any_size_goes_through_our_windows(size: int) -> None:
    async def play(played: Played, _number: int) -> None:
        for _ in range(2):
            stream = await played.request()
            played.h2.send_headers(stream, WELL)
            left = size
            while left:
                if part := min(left, played.h2.local_flow_control_window(stream), 16_384):
                    played.h2.send_data(stream, bytes(part), end_stream=part == left)
                    left -= part
                    played.flush()
                else:
                    played.h2.receive_data(await played.reader.read(65_536))
            await played.writer.drain()
        await played.reader.read()

    async with serving(play) as peer:
        for _ in range(2):
            assert len((await peer.told()).body) == size
        assert peer.connections == 1


@pytest.mark.parametrize(
    "said",
    [
        pytest.param(b"\xff\xff\xff\0\0\0\0\0\1", id="a huge frame"),
        pytest.param(raw(5, 4, 1, bytes(8)), id="a push"),
        pytest.param(raw(0, 1, 1, b"x"), id="content before a head"),
        pytest.param(raw(1, 0, 1, b"\x88") + raw(0, 1, 1, b"x"), id="a head that does not go on"),
        pytest.param(raw(1, 0, 1, b"\x88") + raw(9, 0, 1, bytes(16_000)) * 5, id="an endless head"),
        pytest.param(raw(1, 4, 1, Encoder().encode([(b"x", b"y")])), id="no status"),
        pytest.param(raw(1, 4, 1, Encoder().encode([(b":status", b"x")])), id="a status that is none"),
        pytest.param(raw(1, 0xC, 1, b""), id="padding of nothing"),
        pytest.param(b"HTTP/1.1 505 What?\r\n\r\n", id="another protocol"),
    ],
)
async def test_who_breaks_the_protocol_is_lost_and_its_connection_ends(said: bytes) -> None:
    async def play(played: Played, _number: int) -> None:
        await played.request()
        played.writer.write(said)
        with suppress(ConnectionError):
            await played.reader.read()
        ended.set()

    ended = asyncio.Event()
    async with serving(play) as peer:
        assert (await peer.told()).failure is Failure.LOST
        async with asyncio.timeout(limits.ANSWER):
            await ended.wait()
