"""gRPC on HTTP: a message behind its prefix, a status in the trailers, and fields in the wire format of protobuf."""

from __future__ import annotations

from collections.abc import Iterator
from http import HTTPStatus
from typing import Final
from urllib.parse import quote

from hetserve_shell.http.limits import HttpError
from hetserve_shell.http.takers import Headers

PREFIX: Final = 5
"""Bytes before a message: whether it is compressed, and its length in four."""
OK: Final = 0
MODEL_READY: Final = b"/inference.GRPCInferenceService/ModelReady"
CONTENT_TYPE: Final = (b"content-type", b"application/grpc")
WELL: Final[Headers] = ((b"grpc-status", b"0"),)
"""Trailers of an answer that is one."""
MOST_FIELDS: Final = 10_000
"""Of a message that is read; more are no message of an inference."""
_STATUS: Final = {
    HTTPStatus.BAD_REQUEST: 3,
    HTTPStatus.GATEWAY_TIMEOUT: 4,
    HTTPStatus.REQUEST_TIMEOUT: 4,
    HTTPStatus.NOT_FOUND: 5,
    HTTPStatus.FORBIDDEN: 7,
    HTTPStatus.TOO_MANY_REQUESTS: 8,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: 8,
    HTTPStatus.NOT_IMPLEMENTED: 12,
    HTTPStatus.METHOD_NOT_ALLOWED: 12,
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE: 12,
    HTTPStatus.INTERNAL_SERVER_ERROR: 13,
    HTTPStatus.SERVICE_UNAVAILABLE: 14,
    HTTPStatus.BAD_GATEWAY: 14,
    HTTPStatus.UNAUTHORIZED: 16,
}
_HTTP: Final = {OK: HTTPStatus.OK, **{code: status for status, code in reversed(_STATUS.items())}}
_PLAIN: Final = "".join(map(chr, range(0x20, 0x7F))).replace("%", "")


def refusal(error: HttpError) -> tuple[int, Headers, bytes]:
    """Status, headers and body of an answer without a message; INTERNAL where gRPC has no status for HTTP's."""
    said = [
        CONTENT_TYPE,
        (b"grpc-status", b"%d" % _STATUS.get(error.status, 13)),
        (b"grpc-message", quote(str(error), _PLAIN).encode()),
        (b"grpc-accept-encoding", b"identity"),
    ]
    return HTTPStatus.OK, [*said, *error.headers], b""


def http_status(fields: Headers) -> int:
    """What HTTP would say in place of the status in these trailers."""
    code = dict(fields).get(b"grpc-status", b"")
    return _HTTP.get(int(code) if len(code) < 3 and code.isdigit() else 2, HTTPStatus.INTERNAL_SERVER_ERROR)


def whole_length(prefix: bytes) -> int:
    """Bytes of a message with its prefix. Raises HttpError for a compressed one."""
    if prefix[0]:
        raise compressed("the message")
    return PREFIX + int.from_bytes(prefix[1:PREFIX], "big")


def compressed(what: str) -> HttpError:
    return HttpError(HTTPStatus.NOT_IMPLEMENTED, f"{what} is compressed: must have grpc-encoding identity")


def framed(message: bytes) -> bytes:
    return b"\0" + len(message).to_bytes(4, "big") + message


class WireReader:
    """Reads fields of one message, or of several: MOST_FIELDS in all. Raises HttpError for bytes that are no message.

    An integer is given as its value, everything else as the bytes from `start` to `end`.
    """

    def __init__(self, data: bytes | bytearray | memoryview) -> None:
        self.data = data
        self._left = MOST_FIELDS

    def fields(self, at: int, end: int) -> Iterator[tuple[int, int, int, int]]:
        """Number, value (-1: it is no integer), start and end of each field between two places."""
        data = self.data
        while at < end:
            self._left -= 1
            if self._left < 0:
                raise _wrong(f"more than {MOST_FIELDS} fields")
            key, at = self.varint(at, end)
            value, start = -1, at
            kind = key & 7
            if kind == 0:
                value, at = self.varint(at, end)
            elif kind == 2:
                size = data[at] if at < end else 128
                if size < 128:
                    start = at + 1
                else:
                    size, start = self.varint(at, end)
                at = start + size
            elif kind in (1, 5):
                at += 8 if kind == 1 else 4
            else:
                raise _wrong(f"a field of kind {kind}")
            if at > end:
                raise _wrong(f"field {key >> 3} is longer than what is there")
            yield key >> 3, value, start, at

    def varint(self, at: int, end: int) -> tuple[int, int]:
        """An integer without sign of up to 64 bits, and where it ends."""
        value = shift = 0
        while at < end and shift < 70:
            byte = self.data[at]
            at += 1
            value |= (byte & 127) << shift
            if byte < 128:
                return value & (1 << 64) - 1, at
            shift += 7
        raise _wrong("an integer that does not end")

    def text(self, start: int, end: int) -> str:
        try:
            return str(self.data[start:end], "utf-8")
        except UnicodeDecodeError:
            raise _wrong("a text that is not UTF-8") from None


def signed(value: int) -> int:
    """The integer with a sign that protobuf writes as this one."""
    return value - (1 << 64) if value >> 63 else value


def varint(value: int) -> bytes:
    """An integer as protobuf writes it."""
    found = bytearray()
    value &= (1 << 64) - 1
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    found.append(value)
    return bytes(found)


def field(number: int, value: int | bytes | str) -> bytes:
    """A field of a message; nothing for an integer that is 0."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value) if value else b""
    content = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(content)) + content


def _wrong(what: str) -> HttpError:
    return HttpError(HTTPStatus.BAD_REQUEST, f"the message is not of protobuf: {what}")
