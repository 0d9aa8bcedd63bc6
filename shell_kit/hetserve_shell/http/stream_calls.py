"""Requests to one server over HTTP/2, by calls and without a task; see `calls`. One stream at a time, as instances are.

Only so is the connection's end that of one request. Of the protocol little is left then: the library h2, which a server
needs against its clients, would take a third of a forwarded query's time.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from hpack import Decoder, HPACKError

from hetserve_shell.http.calls import SURROUND, CallConnection, KeptConnections
from hetserve_shell.http.frames import CONTENT, END_HEADERS, HEADER, plain_head
from hetserve_shell.http.takers import Headers

log = logging.getLogger(__name__)

ACKNOWLEDGED_WITHIN: Final = 0.01
"""Seconds until a server learns that its ping has come: each write costs as much as a head."""
WINDOW: Final = 1 << 20
"""Bytes of an answer on their way."""
REMEMBERED: Final = 64
"""Heads of answers that need not be decoded again."""
_DATA, _HEADERS, _RESET, _SETTINGS, _PROMISE, _PING, _PART, _WIDEN, _MORE = 0, 1, 3, 4, 5, 6, 7, 8, 9
_ENDS, _ACKNOWLEDGES, _PADDED, _RANKED = 0x1, 0x1, 0x8, 0x20
_DEFAULT: Final = 65535
"""Bytes of each window at first."""
_REFUSED: Final = 7


def _frame(kind: int, flags: int, stream: int, content: bytes) -> bytes:
    return b"%b%c%c%b%b" % (len(content).to_bytes(3, "big"), kind, flags, stream.to_bytes(4, "big"), content)


def _setting(number: int, value: int) -> bytes:
    return number.to_bytes(2, "big") + value.to_bytes(4, "big")


# No table of heads, so that the same bytes always say the same; no pushes; windows; bytes of a head.
_PREFACE: Final = (
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
    + _frame(_SETTINGS, 0, 0, _setting(1, 0) + _setting(2, 0) + _setting(4, WINDOW) + _setting(6, SURROUND))
    + _frame(_WIDEN, 0, 0, (WINDOW - _DEFAULT).to_bytes(4, "big"))
)


class _BrokenError(Exception):
    """The server breaks the protocol."""


class StreamConnection(CallConnection[Headers]):
    """HTTP/2. The head of a request begins with :method, :scheme, :path and :authority."""

    def __init__(self, kept: KeptConnections) -> None:
        super().__init__(kept)
        self._decoder = Decoder(max_header_list_size=SURROUND)
        self._decoded = dict[bytes, Headers]()
        self._data, self._block = b"", b""
        """What has come of a frame, and of a head."""
        self._to_say = _PREFACE
        self._acknowledging: asyncio.TimerHandle | None = None
        """Says what is to be said unless a request goes before."""
        self._stream = -1
        self._rest = memoryview(b"")
        """What the server has made no room for yet."""
        self._first_room = self._all_room = self._room = _DEFAULT
        """Bytes that a new stream, all, and this stream may bring."""
        self._all_unsaid = self._unsaid = 0
        """Bytes that came, on all streams and this one, of which the server has not been told."""
        self._has_head = self._is_last = False
        """Whether the head of the answer has come, and whether the server takes no more requests."""
        self._trailers: Headers = ()

    def data_received(self, data: bytes) -> None:
        try:
            self._data = self._take(self._data + data)
            self._go_on_soon()
        except (_BrokenError, HPACKError, IndexError, ValueError) as error:
            self._give_up(f"the answer is not HTTP/2: {error!r}")
        except Exception as error:
            log.exception("hearing an answer failed")
            self._give_up(f"hearing the answer failed: {error}")

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    # Inside

    def _take(self, data: bytes) -> bytes:
        """Takes the frames that are whole; returns the rest."""
        at = 0
        while (start := at + HEADER) <= len(data):
            end = start + int.from_bytes(data[at : at + 3], "big")
            if end - start > CONTENT:
                raise _BrokenError(f"a frame of {end - start} bytes")
            if end > len(data):
                break
            kind, flags, stream = data[at + 3], data[at + 4], int.from_bytes(data[at + 5 : start], "big")
            if bool(self._block) != (kind == _MORE):
                raise _BrokenError("a head that does not go on")
            if take := _TAKERS.get(kind):
                take(self, flags, stream & 0x7FFFFFFF, data[start:end])
            at = end
        return data[at:]

    def _write(self, _transport: asyncio.Transport, head: Headers, body: bytes | bytearray) -> None:
        self._stream += 2
        self._room, self._unsaid, self._has_head = self._first_room, 0, False
        self._trailers, self._rest = (), memoryview(body)
        block, kind, ends = plain_head(head), _HEADERS, 0 if body else _ENDS
        while len(block) > CONTENT:
            self._to_say += _frame(kind, ends, self._stream, block[:CONTENT])
            block, kind, ends = block[CONTENT:], _MORE, 0
        self._to_say += _frame(kind, ends | END_HEADERS, self._stream, block)
        self._go_on()

    def _go_on_soon(self) -> None:
        if self._rest and min(self._room, self._all_room) > 0:
            self._go_on()
        elif self._to_say and self._acknowledging is None:
            self._acknowledging = asyncio.get_running_loop().call_later(ACKNOWLEDGED_WITHIN, self._go_on)

    def _go_on(self) -> None:
        """Sends what the server takes."""
        self._stop_waiting()
        parts, self._to_say = [self._to_say], b""
        while self._rest and (size := min(self._room, self._all_room, CONTENT)) > 0:
            part, self._rest = self._rest[:size], self._rest[size:]
            self._room -= len(part)
            self._all_room -= len(part)
            parts.append(_frame(_DATA, 0 if self._rest else _ENDS, self._stream, bytes(part)))
        if self.transport is not None:
            self.transport.write(b"".join(parts))

    def _stop_waiting(self) -> None:
        if self._acknowledging is not None:
            self._acknowledging.cancel()
            self._acknowledging = None

    def _piece(self, flags: int, stream: int, content: bytes) -> None:
        self._all_unsaid = self._tell(0, self._all_unsaid + len(content))
        if stream != self._stream or self.call is None:
            return
        self._unsaid = self._tell(stream, self._unsaid + len(content))
        if not self._has_head:
            raise _BrokenError("content before a head")
        piece = content[1 : len(content) - content[0]] if flags & _PADDED else content
        if piece and self._listener is not None:
            self._listener.on_piece(piece)
        if flags & _ENDS:
            self._finish()

    def _tell(self, stream: int, unsaid: int) -> int:
        """Opens a window again once half of it has come; returns how much of it the server does not know yet."""
        if unsaid < WINDOW // 2:
            return unsaid
        self._to_say += _frame(_WIDEN, 0, stream, unsaid.to_bytes(4, "big"))
        return 0

    def _begin_head(self, flags: int, stream: int, content: bytes) -> None:
        if flags & _PADDED:
            content = content[1 : len(content) - content[0]]
        block = content[5:] if flags & _RANKED else content
        self._ends_with_head = bool(flags & _ENDS)
        self._go_on_head(flags, stream, block)

    def _go_on_head(self, flags: int, stream: int, content: bytes) -> None:
        self._block += content
        if len(self._block) > SURROUND:
            raise _BrokenError("a head that is too large")
        if not flags & END_HEADERS:
            return
        block, self._block = self._block, b""
        headers = self._decode(block)
        if stream != self._stream or self.call is None:
            return
        status = int(dict(headers).get(b":status", b"0"))
        if self._has_head:
            self._trailers = headers
        elif status >= 200:
            self._heard = self._has_head = True
            if self._listener is not None:
                self._listener.on_head(status, [header for header in headers if header[0][:1] != b":"])
        elif not status:
            raise _BrokenError("a head without a status")
        if self._ends_with_head:
            self._finish()

    def _decode(self, block: bytes) -> Headers:
        known = self._decoded.get(block)
        if known is None:
            known = list(self._decoder.decode(block, raw=True))
            if not self._decoder.header_table.dynamic_entries and len(self._decoded) < REMEMBERED:
                self._decoded[block] = known
        return known

    def _finish(self) -> None:
        # A server that answers before all has come wants no more of it.
        stays, self._rest = not self._is_last and not self._rest, memoryview(b"")
        self._end(self._trailers, stays=stays)

    def _reset(self, _flags: int, stream: int, content: bytes) -> None:
        if stream == self._stream and self.call is not None:
            code, self._heard = int.from_bytes(content, "big"), True
            self._give_up(f"the server reset it: error {code}", is_refused=code == _REFUSED)

    def _set(self, flags: int, _stream: int, content: bytes) -> None:
        if flags & _ACKNOWLEDGES:
            return
        for at in range(0, len(content), 6):
            if content[at : at + 2] == b"\0\4":
                before, self._first_room = self._first_room, int.from_bytes(content[at + 2 : at + 6], "big")
                self._room += self._first_room - before
        self._to_say += _frame(_SETTINGS, _ACKNOWLEDGES, 0, b"")

    def _pong(self, flags: int, _stream: int, content: bytes) -> None:
        if not flags & _ACKNOWLEDGES and len(self._to_say) < SURROUND:
            self._to_say += _frame(_PING, _ACKNOWLEDGES, 0, content)

    def _part(self, _flags: int, _stream: int, content: bytes) -> None:
        self._is_last = True
        if self.call is None or self._stream > int.from_bytes(content[:4], "big") & 0x7FFFFFFF:
            self._give_up("the server takes no more requests", is_refused=True)

    def _widen(self, _flags: int, stream: int, content: bytes) -> None:
        more = int.from_bytes(content, "big") & 0x7FFFFFFF
        if not stream:
            self._all_room += more
        elif stream == self._stream:
            self._room += more

    def _promise(self, _flags: int, _stream: int, _content: bytes) -> None:
        raise _BrokenError("a push, which was not allowed")

    def _give_up(self, reason: str, is_refused: bool = False) -> None:
        self._rest = memoryview(b"")
        self._kept.forget(self)
        self.fail(reason, is_refused=is_refused)
        self.abort()


_TAKERS: Final[dict[int, Callable[[StreamConnection, int, int, bytes], None]]] = {
    _DATA: StreamConnection._piece,
    _HEADERS: StreamConnection._begin_head,
    _RESET: StreamConnection._reset,
    _SETTINGS: StreamConnection._set,
    _PROMISE: StreamConnection._promise,
    _PING: StreamConnection._pong,
    _PART: StreamConnection._part,
    _WIDEN: StreamConnection._widen,
    _MORE: StreamConnection._go_on_head,
}
