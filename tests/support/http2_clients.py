"""A client of HTTP/2 that sends what it is told, also what no client should."""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from h2 import events
from h2.config import H2Configuration
from h2.connection import H2Connection
from hyperframe.frame import Frame, GoAwayFrame

from harness import limits

HEAD: Final = 9
"""Bytes before the content of a frame."""
Headers = Sequence[tuple[str, str]]


@dataclass
class Answer:
    """What has come of one answer."""

    headers: dict[str, str] = field(default_factory=dict)
    trailers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    ended: bool = False
    reset: int | None = None

    @property
    def status(self) -> int:
        return int(self.headers[":status"])

    @property
    def error(self) -> str:
        return str(json.loads(self.body)["error"])


class Http2Client:
    """One connection. takes: whether it acknowledges what it has read, so that more is sent."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.h2 = H2Connection(H2Configuration(client_side=True, header_encoding="utf-8"))
        self.answers: dict[int, Answer] = defaultdict(Answer)
        self.last: list[int] = []
        """Streams that the server has said it serves as the last ones, in this order."""
        self.told_to_go_on: set[int] = set()
        self.takes = True
        self.closed = False
        self._unread = b""

    async def begin(self) -> None:
        self.h2.initiate_connection()
        self.flush()
        await self.until(lambda: self.h2.remote_settings.initial_window_size > 65535)

    def flush(self) -> None:
        self.writer.write(self.h2.data_to_send())

    def start(self, path: str, *headers: tuple[str, str], method: str = "POST", end: bool = False) -> int:
        """Begins a request."""
        stream = self.h2.get_next_available_stream_id()
        pseudo = [(":method", method), (":path", path), (":scheme", "https"), (":authority", "extender")]
        self.h2.send_headers(stream, [*pseudo, *headers], end_stream=end)
        return stream

    async def ask(self, path: str, body: bytes = b"", *headers: tuple[str, str]) -> int:
        """Sends a whole request; gives its stream."""
        stream = self.start(path, ("content-length", str(len(body))), *headers)
        await self.send(stream, body)
        return stream

    async def send(self, stream: int, body: bytes, *, end: bool = True) -> None:
        """Sends a body, as fast as the server takes it."""
        rest = body
        while len(rest) > (size := min(self.h2.local_flow_control_window(stream), 16384)):
            self.h2.send_data(stream, rest[:size])
            rest = rest[size:]
            self.flush()
            await self.until(lambda: self.h2.local_flow_control_window(stream) > 0)
        self.h2.send_data(stream, rest, end_stream=end)
        self.flush()

    def widen(self) -> None:
        """Takes any answers, as far as its windows go."""
        self.h2.update_settings({4: 2**31 - 1})
        self.h2.increment_flow_control_window(2**31 - 1 - 65535)
        self.flush()

    def reset(self, stream: int) -> None:
        self.h2.reset_stream(stream, 8)
        self.flush()

    async def answer(self, stream: int) -> Answer:
        found = self.answers[stream]
        await self.until(lambda: found.ended or found.reset is not None)
        return found

    async def call(self, path: str, body: bytes = b"", *headers: tuple[str, str]) -> Answer:
        return await self.answer(await self.ask(path, body, *headers))

    async def until_closed(self) -> None:
        await self.until(lambda: self.closed)

    async def until_last(self, count: int = 1) -> int:
        """The last stream that the server serves, once it has said so this often."""
        await self.until(lambda: len(self.last) >= count)
        return self.last[count - 1]

    async def until(self, holds: Callable[[], bool]) -> None:
        """Reads until something holds."""
        async with asyncio.timeout(limits.ANSWER):
            while not holds():
                assert not self.closed, "the server has closed"
                await self._read()

    async def _read(self) -> None:
        try:
            data = await self.reader.read(65536)
        except ConnectionError:
            data = b""
        self.closed = not data
        self._unread += data
        while len(self._unread) >= HEAD:
            frame, size = Frame.parse_frame_header(memoryview(self._unread[:HEAD]))
            if len(self._unread) < HEAD + size:
                break
            whole, self._unread = self._unread[: HEAD + size], self._unread[HEAD + size :]
            if isinstance(frame, GoAwayFrame):  # after it the library takes nothing more, and answers still come
                frame.parse_body(memoryview(whole[HEAD:]))
                self.last.append(frame.last_stream_id)
            else:
                for event in self.h2.receive_data(whole):
                    self._note(event)
        self.flush()

    def _note(self, event: events.Event) -> None:
        if isinstance(event, events.ResponseReceived):
            headers = [(str(name), str(value)) for name, value in event.headers]
            self.answers[event.stream_id].headers = dict(headers)
        elif isinstance(event, events.InformationalResponseReceived):
            self.told_to_go_on.add(event.stream_id)
        elif isinstance(event, events.TrailersReceived):
            self.answers[event.stream_id].trailers = {str(name): str(value) for name, value in event.headers}
        elif isinstance(event, events.DataReceived):
            self.answers[event.stream_id].body += event.data
            if self.takes:
                self.h2.acknowledge_received_data(event.flow_controlled_length or 0, event.stream_id)
        elif isinstance(event, events.StreamEnded):
            self.answers[event.stream_id].ended = True
        elif isinstance(event, events.StreamReset):
            self.answers[event.stream_id].reset = int(event.error_code)
