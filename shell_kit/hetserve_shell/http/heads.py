"""Heads of HTTP/2 (RFC 9113, section 8; RFC 7541): gathered from their frames, decoded and checked; and written.

Who asks many times sends the same bytes each time, and as long as the table that they refer to does not change, these
say the same: they are looked up, since the library hpack takes some 70 us to decode a head of nine fields.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from hpack import Decoder, HPACKError, OversizedHeaderListError
from hpack.hpack import encode_integer

from hetserve_shell.http.frames import (
    CONTENT,
    CONTINUATION,
    END_HEADERS,
    END_STREAM,
    HEADER,
    HEADERS,
    BrokenError,
    ErrorCode,
    frame,
)
from hetserve_shell.http.takers import Headers

TABLE: Final = 4096
"""Bytes of the table at most, where nobody says something else."""
REMEMBERED: Final = 8
"""Heads of a connection that are looked up; each has at most so many bytes and fields:"""
SHORT: Final = 512
FEW: Final = 32
_ONE_BYTE: Final = 127
"""A length below it has one."""
_PSEUDO: Final = frozenset((b":method", b":scheme", b":authority", b":path", b":status", b":protocol"))
_NAME: Final = re.compile(rb"[!#$%&'*+.^_`|~0-9a-z-]+")
_BREAK: Final = re.compile(rb"[\0\r\n]")


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
        except (HPACKError, IndexError) as error:
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
    if any(_BREAK.search(value) for _, value in fields):
        raise BrokenError("a value of a field: must be one line")
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


def head_frames(stream: int, fields: Iterable[tuple[bytes, bytes]], *, ends: bool) -> bytes:
    """The frames of a head. ends: whether nothing comes behind it on its stream."""
    block, flags = plain_block(fields), END_STREAM if ends else 0
    if len(block) <= CONTENT:
        return frame(HEADERS, flags | END_HEADERS, stream, block)
    parts = [block[at : at + CONTENT] for at in range(0, len(block), CONTENT)]
    first, *more, last = parts
    found = [frame(HEADERS, flags, stream, first), *(frame(CONTINUATION, 0, stream, part) for part in more)]
    return b"".join([*found, frame(CONTINUATION, END_HEADERS, stream, last)])
