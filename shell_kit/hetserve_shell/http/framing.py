"""What is the same on both sides of a connection of HTTP/2 (RFC 9113): windows, heads, settings and pings."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from hpack import Decoder, HPACKError, OversizedHeaderListError
from hpack.hpack import encode_integer

from hetserve_shell.http.frames import (
    ACK,
    CONTENT,
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    GOAWAY,
    HEADER,
    HEADERS,
    PING,
    PRIORITIZED,
    PUSH_PROMISE,
    RST_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
    BrokenError,
    ErrorCode,
    frame,
    unpadded,
)
from hetserve_shell.http.limits import ServerLimits
from hetserve_shell.http.takers import Headers

DEFAULT: Final = 65535
"""Bytes of each window at first."""
WIDEST: Final = 2**31 - 1
"""Bytes that a window can have."""
HEADER_TABLE_SIZE, ENABLE_PUSH, MAX_CONCURRENT_STREAMS, INITIAL_WINDOW_SIZE = 1, 2, 3, 4
MAX_HEADER_LIST_SIZE: Final = 6


class StreamListener(Protocol):
    """Hears what the peer says of streams. Each call may raise BrokenError."""

    def on_head(self, stream: int, head: HeadFields, *, ends: bool) -> bool:
        """Says whether it asks for something, as does `on_data`."""

    def on_data(self, stream: int, piece: bytes, taken: int, *, ends: bool) -> bool:
        """taken: bytes of the stream's window, with padding."""

    def on_reset(self, stream: int, code: int) -> None: ...

    def on_room(self, stream: int, more: int) -> None:
        """The peer takes so much more; stream 0: of all streams together, or of each."""

    def on_goaway(self, last: int, code: int) -> None:
        """The peer answers no stream behind the last."""


class Framing:
    """One side of a connection.

    preface: what is said first. heads: what decodes the peer's. settings: ours, by number. window: bytes that all
    streams may bring before the peer is told that there is room for more. first_room, room: bytes that the peer takes
    of a new stream, and of all together. queued: bytes that are to be sent.
    """

    def __init__(
        self, listener: StreamListener, preface: bytes, heads: Heads, settings: Mapping[int, int], window: int
    ) -> None:
        self._listener, self._heads, self._window = listener, heads, window
        self.first_room = self.room = DEFAULT
        self._untold = 0
        """Bytes that came of which the peer has not been told."""
        self._said, self.queued = [preface], len(preface)
        self._shrinking = b""
        """What the next head begins with."""
        self._has_shrunk = False
        values = [number.to_bytes(2, "big") + value.to_bytes(4, "big") for number, value in settings.items()]
        self.say(frame(SETTINGS, 0, 0, b"".join(values)))
        self._widen(0, window - DEFAULT)

    def hear(self, kind: int, flags: int, stream: int, content: bytes) -> bool:
        """Whether a frame asks for something. Raises BrokenError."""
        pending = self._heads.stream
        if (pending or kind == CONTINUATION) and (kind != CONTINUATION or stream != pending):
            raise BrokenError("a head that does not go on")
        hear = (_OF_STREAMS if stream else _OF_ALL).get(kind)
        if hear is not None:
            return bool(hear(self, flags, stream, content))
        if kind in _KNOWN:
            raise BrokenError(f"a frame of kind {kind} on stream {stream}")
        return False

    def say(self, part: bytes) -> None:
        self._said.append(part)
        self.queued += len(part)

    def take(self) -> bytes:
        """What is to be sent."""
        said, self._said, self.queued = self._said, [], 0
        return said[0] if len(said) == 1 else b"".join(said)

    def say_head(self, stream: int, fields: Headers, *, ends: bool) -> None:
        self.say(head_frames(stream, fields, ends=ends, begins=self._shrinking))
        self._shrinking = b""

    def say_data(self, stream: int, piece: bytes | memoryview[int], *, ends: bool) -> None:
        """piece: both windows have room for it, and a frame."""
        self.room -= len(piece)
        self.say(frame(DATA, END_STREAM if ends else 0, stream, piece))

    def say_reset(self, stream: int, code: ErrorCode) -> None:
        self.say(frame(RST_STREAM, 0, stream, code.to_bytes(4, "big")))

    def say_goaway(self, last: int, code: ErrorCode) -> None:
        self.say(frame(GOAWAY, 0, 0, last.to_bytes(4, "big") + code.to_bytes(4, "big")))

    def told(self, stream: int, untold: int, window: int) -> int:
        """Opens a window again once half of it has come; returns how many bytes the peer has not been told of."""
        if untold < window // 2:
            return untold
        self._widen(stream, untold)
        return 0

    # Inside

    def _widen(self, stream: int, more: int) -> None:
        self.say(frame(WINDOW_UPDATE, 0, stream, more.to_bytes(4, "big")))

    def _data(self, flags: int, stream: int, content: bytes) -> bool:
        self._untold = self.told(0, self._untold + len(content), self._window)
        piece = unpadded(flags, content)
        return self._listener.on_data(stream, piece, len(content), ends=bool(flags & END_STREAM))

    def _head(self, flags: int, stream: int, content: bytes) -> bool:
        part = unpadded(flags, content)
        if flags & PRIORITIZED:
            part = part[PRIORITY_LENGTH:]
        return self._more_head(flags, stream, part)

    def _more_head(self, flags: int, stream: int, part: bytes) -> bool:
        found = self._heads.add(flags, stream, part)
        return found is not None and self._listener.on_head(stream, found[0], ends=found[1])

    def _reset(self, _flags: int, stream: int, content: bytes) -> None:
        self._listener.on_reset(stream, _number(content))

    def _settings(self, flags: int, _stream: int, content: bytes) -> None:
        if flags & ACK:
            return
        if len(content) % 6:
            raise BrokenError(f"settings of {len(content)} bytes", ErrorCode.FRAME_SIZE_ERROR)
        for at in range(0, len(content), 6):
            number, value = int.from_bytes(content[at : at + 2], "big"), int.from_bytes(content[at + 2 : at + 6], "big")
            if number == HEADER_TABLE_SIZE and value < TABLE and not self._has_shrunk:
                # It waits to hear so (RFC 7541, section 4.2), though our heads use no table.
                self._shrinking, self._has_shrunk = NO_TABLE, True
            if number == INITIAL_WINDOW_SIZE:
                self.first_room = value
                if self.first_room > WIDEST:
                    raise BrokenError(f"a window of {self.first_room} bytes", ErrorCode.FLOW_CONTROL_ERROR)
                self._listener.on_room(0, 0)
        self.say(frame(SETTINGS, ACK, 0))

    def _ping(self, flags: int, _stream: int, content: bytes) -> None:
        if len(content) != PING_LENGTH:
            raise BrokenError(f"a ping of {len(content)} bytes", ErrorCode.FRAME_SIZE_ERROR)
        if not flags & ACK:
            self.say(frame(PING, ACK, 0, content))

    def _goaway(self, _flags: int, _stream: int, content: bytes) -> None:
        self._listener.on_goaway(_number(content[:4]) & WIDEST, _number(content[4:8]))

    def _room(self, _flags: int, stream: int, content: bytes) -> None:
        more = _number(content) & WIDEST
        if not stream:
            self.room += more
        if not more or self.room > WIDEST:
            raise BrokenError(f"a window that grows by {more} bytes", ErrorCode.FLOW_CONTROL_ERROR)
        self._listener.on_room(stream, more)


Hear = Callable[[Framing, int, int, bytes], bool | None]
PRIORITY_LENGTH: Final = 5
PING_LENGTH: Final = 8
_OF_STREAMS: Final[dict[int, Hear]] = {
    DATA: Framing._data,
    HEADERS: Framing._head,
    CONTINUATION: Framing._more_head,
    RST_STREAM: Framing._reset,
    WINDOW_UPDATE: Framing._room,
}
_OF_ALL: Final[dict[int, Hear]] = {
    SETTINGS: Framing._settings,
    PING: Framing._ping,
    GOAWAY: Framing._goaway,
    WINDOW_UPDATE: Framing._room,
}
_KNOWN: Final = {*_OF_STREAMS, *_OF_ALL, PUSH_PROMISE}
"""Kinds that break the protocol elsewhere."""


def server_side(listener: StreamListener, limits: ServerLimits) -> Framing:
    settings = {
        MAX_CONCURRENT_STREAMS: limits.streams,
        INITIAL_WINDOW_SIZE: window_of(limits),
        MAX_HEADER_LIST_SIZE: limits.head,
    }
    return Framing(listener, b"", Heads(limits.head), settings, min(limits.body + DEFAULT, WIDEST))


def window_of(limits: ServerLimits) -> int:
    """Bytes that a request may bring before its client hears of it: what is too large shall come and be refused."""
    return min(limits.body + 1, WIDEST)


def _number(content: bytes) -> int:
    if len(content) != 4:
        raise BrokenError(f"{len(content)} bytes in place of 4", ErrorCode.FRAME_SIZE_ERROR)
    return int.from_bytes(content, "big")


TABLE: Final = 4096
"""Bytes of the table at most, where nobody says something else."""
REMEMBERED: Final = 8
"""Heads of a connection that are looked up; each has at most so many bytes and fields:"""
SHORT: Final = 512
FEW: Final = 32
NO_TABLE: Final = b"\x20"
"""In a head: the table has no bytes from now on."""
_ONE_BYTE: Final = 127
"""A length below it has one."""
_PSEUDO: Final = frozenset((b":method", b":scheme", b":authority", b":path", b":status", b":protocol"))
_NAME: Final = re.compile(rb"[!#$%&'*+.^_`|~0-9a-z-]+")
_CONTROL: Final = re.compile(rb"[\0-\x08\n-\x1f\x7f]")


@dataclass(frozen=True, slots=True)
class HeadFields:
    """A head. pseudo: fields that begin with a colon; headers: the others; firsts: by name, the first of these.

    What :authority says is among the headers as `host`, in place of one that is there.
    """

    pseudo: dict[bytes, bytes]
    headers: Headers
    firsts: dict[bytes, bytes]


class FieldDecoder:
    """hpack's decoder, which says whether the last head has changed the table.

    limit: bytes of a head at most. table: bytes of the table at most.
    """

    def __init__(self, limit: int, table: int = TABLE) -> None:
        self._decoder = Decoder(limit)
        self._decoder.max_allowed_table_size = self._decoder.header_table_size = table
        self.is_changed = False

    def decode(self, block: bytes) -> Headers:
        """Raises BrokenError."""
        table = self._decoder.header_table
        before = table.maxsize, len(table.dynamic_entries), next(iter(table.dynamic_entries), None)
        try:
            fields = list(self._decoder.decode(block, raw=True))
        except OversizedHeaderListError:
            raise BrokenError("a head that is too large", ErrorCode.ENHANCE_YOUR_CALM) from None
        except (HPACKError, IndexError, ValueError) as error:
            raise BrokenError(f"a head that is none: {error}", ErrorCode.COMPRESSION_ERROR) from None
        newest = next(iter(table.dynamic_entries), None)
        self.is_changed = before[:2] != (table.maxsize, len(table.dynamic_entries)) or newest is not before[2]
        return fields


class Heads:
    """What the peer sends. limit: bytes of a head at most, in its frames and decoded. table: see `FieldDecoder`.

    stream: whose head is not whole yet; 0: none.
    """

    def __init__(self, limit: int, table: int = TABLE) -> None:
        self._limit, self._decoder = limit, FieldDecoder(limit, table)
        self._known = dict[bytes, HeadFields]()
        self._parts, self._size, self._ends = list[bytes](), 0, False
        self.stream = 0

    def add(self, flags: int, stream: int, part: bytes) -> tuple[HeadFields, bool] | None:
        """Takes a part; returns the head once it is whole, and whether its stream ends with it. Raises BrokenError."""
        if not self.stream:
            self.stream, self._ends, self._parts, self._size = stream, bool(flags & END_STREAM), [], -HEADER
        self._parts.append(part)
        self._size += HEADER + len(part)
        if self._size > self._limit:
            raise BrokenError("a head that is too large", ErrorCode.ENHANCE_YOUR_CALM)
        if not flags & END_HEADERS:
            return None
        self.stream = 0
        block = b"".join(self._parts)
        return self._known.get(block) or self._decoded(block), self._ends

    def _decoded(self, block: bytes) -> HeadFields:
        fields = self._decoder.decode(block)
        found = _checked(fields)
        if self._decoder.is_changed:
            self._known.clear()
        elif len(self._known) < REMEMBERED and len(block) <= SHORT and len(fields) <= FEW:
            self._known[block] = found
        return found


def _checked(fields: Headers) -> HeadFields:
    """Raises BrokenError where who gets a name or a value could take it for something else."""
    pseudo, headers = dict[bytes, bytes](), list[tuple[bytes, bytes]]()
    for name, value in fields:
        if name[:1] != b":":
            headers.append((name, value))
        elif headers or name in pseudo or name not in _PSEUDO:
            raise BrokenError(f"field {name[:40]!r}: it comes twice, or behind others, or nobody knows it")
        else:
            pseudo[name] = value
    if not all(_NAME.fullmatch(name) for name, _ in headers):
        raise BrokenError("a name of a field: must be of lower case and without blanks")
    if any(_CONTROL.search(value) for _, value in fields):
        raise BrokenError("a value of a field: must have no control characters")
    if sum(name == b"content-length" for name, _ in headers) > 1:
        raise BrokenError("the length of the content comes twice")
    if b":authority" in pseudo:
        headers = [(b"host", pseudo[b":authority"]), *(field for field in headers if field[0] != b"host")]
    return HeadFields(pseudo, headers, dict(reversed(headers)))


def plain_block(fields: Iterable[tuple[bytes, bytes]]) -> bytes:
    """A head that is not compressed: it is short, and a quarter of the time of sending one went into that."""
    return b"".join(
        [
            b"\0%c%b%c%b" % (len(name), name, len(value), value)
            if len(name) < _ONE_BYTE > len(value)
            else b"\0" + encode_integer(len(name), 7) + name + encode_integer(len(value), 7) + value
            for name, value in fields
        ]
    )


def head_frames(stream: int, fields: Iterable[tuple[bytes, bytes]], *, ends: bool, begins: bytes = b"") -> bytes:
    """The frames of a head. ends: whether nothing comes behind it on its stream. begins: what the block begins with."""
    block, flags = begins + plain_block(fields), END_STREAM if ends else 0
    if len(block) <= CONTENT:
        return frame(HEADERS, flags | END_HEADERS, stream, block)
    parts = [block[at : at + CONTENT] for at in range(0, len(block), CONTENT)]
    first, *more, last = parts
    found = [frame(HEADERS, flags, stream, first), *(frame(CONTINUATION, 0, stream, part) for part in more)]
    return b"".join([*found, frame(CONTINUATION, END_HEADERS, stream, last)])
