"""What a client of HTTP/2 sends, frame by frame, and the library that reads it.

The library h2 makes no event of many frames, such as those of streams that are over, and looks at a length only when
all of the frame is there. Cut here, frames are counted whether or not they say something, and bounded before they are
whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from h2 import events
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.exceptions import DenialOfServiceError, FrameTooLargeError
from h2.settings import SettingCodes, Settings
from hpack import Encoder
from hpack.hpack import encode_integer

from hetserve_shell.http.limits import ServerLimits

PREFACE: Final = 24
"""Bytes that a client of HTTP/2 sends first; h2 looks at each as it comes."""
HEADER: Final = 9
"""Bytes before the content of a frame: its length in 3, its kind, its flags, its stream."""
CONTENT: Final = 16384
"""Bytes of a frame's content at most, in both directions."""
HEADS: Final = (1, 5, 9)
"""Kinds of frames that bring a head or a part of one: HEADERS, PUSH_PROMISE, CONTINUATION."""
END_HEADERS: Final = 0x4
TURN: Final = 128
"""Frames that are heard in one turn of the loop: some milliseconds at worst."""
HEAD: Final = 8
"""A head counts for so many frames more, and one for each 8 bytes: it is decoded, and answered."""
IDLE: Final = 5000
"""Frames that ask for nothing, such as pings and windows, in half a second: 600 pods a second make some 1,000."""
HALF_A_SECOND: Final = 0.5
ASKING: Final = frozenset({events.RequestReceived, events.StreamEnded})
"""Events that bring a request, or its end."""


class Frames:
    """Cuts what comes into whole frames.

    head: bytes of a head at most. now: of the server's clock [s]. since: when the frame or the head began that is not
    whole yet. left: whether there may be frames that are whole.
    """

    def __init__(self, head: int, now: float) -> None:
        self._head_limit = head
        self._preface = PREFACE
        self._data = b""
        self._at = 0
        self.left = False
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

    def turn(self) -> Iterator[bytes]:
        """The frames that are whole, as many as one turn of the loop may hear; then `left` says whether there are more.

        Raises ProtocolError for one that is too large.
        """
        self.left, done = True, 0
        if self._preface:
            yield self._take_preface()
        data, end = self._data, self._at
        while done < TURN:
            start = end
            content = int.from_bytes(data[start : start + 3], "big")
            end += HEADER + content
            if len(data) < end:
                self._keep_rest(content)
                return
            self._at = end
            done += 1
            if data[start + 3] in HEADS:
                done += HEAD + content // 8
                self._count_head(content, data[start + 4])
            if not self._head:
                self.since = self._fed
            yield data[start:end]

    def count(self, found: list[events.Event]) -> None:
        """Counts a frame by what it said. Raises ProtocolError where too many ask for nothing."""
        for event in found:
            if type(event) in ASKING or (isinstance(event, events.DataReceived) and event.data):
                return
        if self._fed >= self._idle_since + HALF_A_SECOND:
            self._idle, self._idle_since = 0, self._fed
        self._idle += 1
        if self._idle > IDLE:
            raise DenialOfServiceError(f"more than {IDLE} frames that ask for nothing")

    def clear(self) -> None:
        """Forgets what has come."""
        self._data, self._at, self._head = b"", 0, 0

    def _take_preface(self) -> bytes:
        found = self._data[: self._preface]
        self._preface -= len(found)
        self._at = len(found)
        return found

    def _keep_rest(self, content: int) -> None:
        """content: bytes of the frame that is not whole; or less, where not even its length is there."""
        self._data, self._at, self.left = self._data[self._at :], 0, False
        if content > CONTENT and len(self._data) >= HEADER:
            raise FrameTooLargeError(f"a frame of {content} bytes, not {CONTENT} at most")

    def _count_head(self, content: int, flags: int) -> None:
        self._head = 0 if flags & END_HEADERS else self._head + HEADER + content
        if self._head > self._head_limit + CONTENT:
            raise DenialOfServiceError("a head that is too large")


class _PlainEncoder(Encoder):
    def encode(self, headers: Iterable[Any], huffman: bool = False) -> bytes:  # noqa: ARG002
        return plain_head(headers)


def plain_head(headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    """A head that is not compressed: it is short, and a quarter of the time of sending one went into that."""
    return b"".join([b"\0%b%b%b%b" % (_sized(len(name)), name, _sized(len(value)), value) for name, value in headers])


def _sized(length: int) -> bytes:
    return b"%c" % length if length < 127 else bytes(encode_integer(length, 7))


class _Protocol(H2Connection):
    MAX_CLOSED_STREAMS = 1024
    """Of which it is remembered how they ended: 65,536 would take megabytes of each long connection."""


WIDEST: Final = 2**31 - 1
"""Bytes that a window can have."""


def protocol(limits: ServerLimits) -> H2Connection:
    """The server's side of one connection."""
    # What we send is made by us alone, and need not be looked at as if it came from somewhere else.
    config = H2Configuration(
        client_side=False,
        validate_outbound_headers=False,
        normalize_outbound_headers=False,
        normalize_inbound_headers=False,
    )
    made = _Protocol(config)
    values = {
        SettingCodes.MAX_CONCURRENT_STREAMS: limits.streams,
        SettingCodes.INITIAL_WINDOW_SIZE: min(limits.body + 1, WIDEST),
        SettingCodes.MAX_HEADER_LIST_SIZE: limits.head,
        SettingCodes.ENABLE_CONNECT_PROTOCOL: 0,
    }
    made.local_settings = Settings(client=False, initial_values=values)
    made.decoder.max_header_list_size = limits.head
    made.encoder = _PlainEncoder()
    return made
