"""What a client of HTTP/2 sends, frame by frame, and the library that reads it.

The library h2 makes no event of many frames, such as those of streams that are over, and looks at a length only when
all of the frame is there. Cut here, frames are counted whether or not they say something, and bounded before they are
whole.
"""

from __future__ import annotations

from typing import Final

from h2 import events
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.exceptions import DenialOfServiceError, FrameTooLargeError
from h2.settings import SettingCodes, Settings

from hetserve_shell.http.limits import Limits

PREFACE: Final = 24
"""Bytes that a client of HTTP/2 sends first; h2 looks at each as it comes."""
HEADER: Final = 9
"""Bytes before the content of a frame: its length in 3, its kind, its flags, its stream."""
CONTENT: Final = 16384
"""Bytes of a frame's content at most, in both directions."""
HEADS: Final = (b"\x01", b"\x05", b"\x09")
"""Kinds of frames that bring a head or a part of one: HEADERS, PUSH_PROMISE, CONTINUATION."""
END_HEADERS: Final = 0x4
IDLE: Final = 5000
"""Frames that ask for nothing, such as pings and windows, in half a second: 600 pods a second make some 1,000."""
HALF_A_SECOND: Final = 0.5


class Frames:
    """Cuts what comes into whole frames.

    head: bytes of a head at most. now: of the server's clock [s]. since: when the frame or the head began that is not
    whole yet.
    """

    def __init__(self, head: int, now: float) -> None:
        self._head_limit = head
        self._preface = PREFACE
        self._data = b""
        self._at = 0
        self._head = 0
        """Bytes of a head of which more frames must come."""
        self.since = self._fed = now
        self._idle, self._idle_since = 0, now

    @property
    def unfinished(self) -> bool:
        """Whether a frame or a head has begun that is not whole."""
        return self._at < len(self._data) or self._head > 0

    def feed(self, data: bytes, now: float) -> None:
        self._fed = now
        if not self.unfinished:
            self.since = now
        self._data = self._data[self._at :] + data
        self._at = 0

    def take(self) -> bytes | None:
        """The next frame that is whole. Raises ProtocolError for one that is too large."""
        if self._preface:
            return self._take_preface()
        data, start = self._data, self._at
        content = int.from_bytes(data[start : start + 3], "big")
        if content > CONTENT and len(data) >= start + 3:
            raise FrameTooLargeError(f"a frame of {content} bytes, not {CONTENT} at most")
        end = start + HEADER + content
        if len(data) < end:
            self._keep(start)
            return None
        self._at = end
        self._look(frame := data[start:end])
        return frame

    def count(self, found: list[events.Event]) -> None:
        """Counts a frame by what it said. Raises ProtocolError where too many ask for nothing."""
        if any(map(_asks, found)):
            return
        if self._fed >= self._idle_since + HALF_A_SECOND:
            self._idle, self._idle_since = 0, self._fed
        self._idle += 1
        if self._idle > IDLE:
            raise DenialOfServiceError(f"more than {IDLE} frames that ask for nothing")

    def clear(self) -> None:
        """Forgets what has come."""
        self._keep(len(self._data))
        self._head = 0

    def _take_preface(self) -> bytes | None:
        found = self._data[: self._preface]
        self._preface -= len(found)
        self._keep(len(found))
        return found or None

    def _keep(self, start: int) -> None:
        self._data, self._at = self._data[start:], 0

    def _look(self, frame: bytes) -> None:
        if frame[3:4] in HEADS:
            self._head = 0 if frame[4] & END_HEADERS else self._head + len(frame)
            if self._head > self._head_limit + CONTENT:
                raise DenialOfServiceError("a head that is too large")
        if not self._head:
            self.since = self._fed


def work(frame: bytes) -> int:
    """What it takes to hear a frame, in frames that are no heads: a head is decoded and answered."""
    return 8 + len(frame) // 16 if frame[3:4] in HEADS else 1


def _asks(event: events.Event) -> bool:
    if isinstance(event, events.DataReceived):
        return bool(event.data) or event.stream_ended is not None
    return isinstance(event, events.RequestReceived | events.StreamEnded)


class _Protocol(H2Connection):
    MAX_CLOSED_STREAMS = 1024
    """Of which it is remembered how they ended: 65,536 would take megabytes of each long connection."""


def protocol(limits: Limits) -> H2Connection:
    """The server's side of one connection."""
    # What we send is made by us alone, and need not be looked at as if it came from somewhere else.
    config = H2Configuration(client_side=False, validate_outbound_headers=False, normalize_outbound_headers=False)
    made = _Protocol(config)
    values = {
        SettingCodes.MAX_CONCURRENT_STREAMS: limits.streams,
        SettingCodes.INITIAL_WINDOW_SIZE: limits.body + 1,
        SettingCodes.MAX_HEADER_LIST_SIZE: limits.head,
        SettingCodes.ENABLE_CONNECT_PROTOCOL: 0,
    }
    made.local_settings = Settings(client=False, initial_values=values)
    made.decoder.max_header_list_size = limits.head
    return made
