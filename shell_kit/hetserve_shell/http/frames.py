"""Frames of HTTP/2 (RFC 9113, sections 4 and 6), for both sides of a connection: cut, bounded, counted and made."""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from typing import Final

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
"""What a client of HTTP/2 sends first."""
HEADER: Final = 9
"""Bytes before the content of a frame: its length in 3, its kind, its flags, its stream."""
CONTENT: Final = 16384
"""Bytes of a frame's content at most, in both directions."""
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
END_STREAM: Final = 0x1
ACK: Final = 0x1
END_HEADERS: Final = 0x4
PADDED: Final = 0x8
PRIORITIZED: Final = 0x20
TURN: Final = 128
"""Frames that are heard in one turn of the loop: some milliseconds at worst."""
HEAD: Final = 8
"""A head counts for so many frames more, and one for each 8 bytes: it is decoded, and answered."""
IDLE: Final = 5000
"""Frames that ask for nothing, such as pings and windows, in half a second: 600 pods a second make some 1,000."""
RESET: Final = 9
"""A request that is taken back before its answer counts for so many of them more."""
HALF_A_SECOND: Final = 0.5

Frame = tuple[int, int, int, bytes]
"""Kind, flags, stream, content."""


class ErrorCode(IntEnum):
    """RFC 9113, section 7."""

    NO_ERROR = 0
    PROTOCOL_ERROR = 1
    INTERNAL_ERROR = 2
    FLOW_CONTROL_ERROR = 3
    STREAM_CLOSED = 5
    FRAME_SIZE_ERROR = 6
    REFUSED_STREAM = 7
    CANCEL = 8
    COMPRESSION_ERROR = 9
    ENHANCE_YOUR_CALM = 11


class BrokenError(Exception):
    """The peer breaks the protocol, or asks for too much. code: what it is told."""

    def __init__(self, reason: str, code: ErrorCode = ErrorCode.PROTOCOL_ERROR) -> None:
        super().__init__(reason)
        self.code = code


class Frames:
    """Cuts what comes into whole frames. left: whether there may be more of them."""

    def __init__(self) -> None:
        self._data = b""
        self._at = 0
        self.left = False

    @property
    def unfinished(self) -> bool:
        """Whether a frame has begun that is not whole."""
        return self._at < len(self._data)

    def feed(self, data: bytes) -> None:
        self._data = self._data[self._at :] + data if self._at < len(self._data) else data
        self._at, self.left = 0, True

    def take(self) -> Frame | None:
        """The next whole frame. Raises BrokenError for one that is too large, before it is whole."""
        data, at = self._data, self._at
        start = at + HEADER
        if start <= len(data):
            length = int.from_bytes(data[at : at + 3], "big")
            if length > CONTENT:
                raise BrokenError(f"a frame of {length} bytes", ErrorCode.FRAME_SIZE_ERROR)
            end = start + length
            if end <= len(data):
                self._at = end
                stream = int.from_bytes(data[at + 5 : start], "big") & 0x7FFFFFFF
                return data[at + 3], data[at + 4], stream, data[start:end]
        self.left = False
        return None


class ClientFrames(Frames):
    """What a client sends, so much in one turn of the loop, and bounded whether or not it says something.

    now: of the server's clock [s]. since: when the frame or the head began that is not whole yet.
    """

    def __init__(self, now: float) -> None:
        super().__init__()
        self._preface = PREFACE
        """What must still come of it."""
        self._in_head = False
        """Whether more frames of a head must come."""
        self.since = self._fed = now
        self._idle, self._idle_since = 0, now

    @property
    def unfinished(self) -> bool:
        """Whether a frame or a head has begun that is not whole."""
        return self._in_head or super().unfinished

    def come(self, data: bytes, now: float) -> None:
        self._fed = now
        if not self.unfinished:
            self.since = now
        self.feed(data)

    def turn(self) -> Iterator[Frame]:
        """The frames that are whole, as many as one turn of the loop may hear. Raises BrokenError."""
        if self._preface:
            self._take_preface()
        done = 0
        while done < TURN and (frame := self.take()) is not None:
            kind, flags, _, content = frame
            done += 1
            if kind in (HEADERS, CONTINUATION):
                done += HEAD + len(content) // 8
                self._in_head = not flags & END_HEADERS
            if not self._in_head:
                self.since = self._fed
            yield frame

    def count_idle(self, frames: int = 1) -> None:
        """Counts frames that asked for nothing. Raises BrokenError where these are too many."""
        if self._fed >= self._idle_since + HALF_A_SECOND:
            self._idle, self._idle_since = 0, self._fed
        self._idle += frames
        if self._idle > IDLE:
            raise BrokenError(f"more than {IDLE} frames that ask for nothing", ErrorCode.ENHANCE_YOUR_CALM)

    def clear(self) -> None:
        """Forgets what has come."""
        self._data, self._at, self._in_head, self.left = b"", 0, False, False

    def _take_preface(self) -> None:
        found = self._data[: len(self._preface)]
        if not self._preface.startswith(found):
            raise BrokenError("a preface that is none")
        self._preface, self._at = self._preface[len(found) :], len(found)


def frame(kind: int, flags: int, stream: int, content: bytes | memoryview[int] = b"") -> bytes:
    return (len(content) << 48 | kind << 40 | flags << 32 | stream).to_bytes(HEADER, "big") + content


def unpadded(flags: int, content: bytes) -> bytes:
    """What a frame brings beside its padding. Raises BrokenError."""
    if not flags & PADDED:
        return content
    if not content or content[0] >= len(content):
        raise BrokenError("padding that is longer than its frame")
    return content[1 : len(content) - content[0]]
