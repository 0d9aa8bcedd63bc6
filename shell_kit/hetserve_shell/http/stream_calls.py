"""Requests to one server over HTTP/2, by calls and without a task; see `calls`. One stream at a time, as instances are.

Only so is the connection's end that of one request.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from hetserve_shell.http.calls import SURROUND, CallConnection, KeptConnections
from hetserve_shell.http.frames import CONTENT, PREFACE, BrokenError, ErrorCode, Frames
from hetserve_shell.http.framing import (
    ENABLE_PUSH,
    HEADER_TABLE_SIZE,
    INITIAL_WINDOW_SIZE,
    MAX_HEADER_LIST_SIZE,
    WIDEST,
    Framing,
    HeadFields,
    Heads,
)
from hetserve_shell.http.takers import Headers

log = logging.getLogger(__name__)

ACKNOWLEDGED_WITHIN: Final = 0.01
"""Seconds until a server learns that its ping has come: each write costs as much as a head."""
WINDOW: Final = 1 << 20
"""Bytes of an answer on their way."""
# No table of heads, so that the same bytes always say the same; and no pushes.
SETTINGS: Final = {
    HEADER_TABLE_SIZE: 0,
    ENABLE_PUSH: 0,
    INITIAL_WINDOW_SIZE: WINDOW,
    MAX_HEADER_LIST_SIZE: SURROUND,
}


class StreamConnection(CallConnection[Headers]):
    """HTTP/2. The head of a request begins with :method, :scheme, :path and :authority."""

    def __init__(self, kept: KeptConnections) -> None:
        super().__init__(kept)
        self._frames, self._heads = Frames(), Heads(SURROUND, table=0)
        self._framing = Framing(self, PREFACE, self._heads, SETTINGS, WINDOW)
        self._acknowledging: asyncio.TimerHandle | None = None
        """Says what is to be said unless a request goes before."""
        self._stream = -1
        self._rest = memoryview(b"")
        """What the server has made no room for yet."""
        self._more_room = 0
        """Bytes that this stream may bring beyond those of a new one."""
        self._untold = 0
        """Bytes that came on this stream, of which the server has not been told."""
        self._has_head = self._is_last = False
        """Whether the head of the answer has come, and whether the server takes no more requests."""
        self._trailers: Headers = ()

    def data_received(self, data: bytes) -> None:
        self._frames.feed(data)
        try:
            while (frame := self._frames.take()) is not None:
                self._framing.hear(*frame)
            self._go_on_soon()
        except BrokenError as error:
            self._give_up(f"the answer is not HTTP/2: {error}")
        except Exception as error:
            log.exception("hearing an answer failed")
            self._give_up(f"hearing the answer failed: {error}")

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    # Called by the framing

    def on_head(self, stream: int, head: HeadFields, *, ends: bool) -> bool:
        if stream != self._stream or self.call is None:
            return False
        status = head.pseudo.get(b":status", b"0")
        if self._has_head:
            self._trailers = head.headers
        elif not status.isdigit() or status == b"0":
            raise BrokenError("a head without a status")
        elif int(status) >= 200:
            self._heard = self._has_head = True
            if self._listener is not None:
                self._listener.on_head(int(status), head.headers)
        elif ends:
            raise BrokenError("an end without an answer")
        if ends:
            self._finish()
        return True

    def on_data(self, stream: int, piece: bytes, taken: int, *, ends: bool) -> bool:
        if stream != self._stream or self.call is None:
            return False
        self._untold = self._framing.told(stream, self._untold + taken, WINDOW)
        if not self._has_head:
            raise BrokenError("content before a head")
        if piece and self._listener is not None:
            self._listener.on_piece(piece)
        if ends:
            self._finish()
        return True

    def on_reset(self, stream: int, code: int) -> None:
        if stream == self._stream and self.call is not None:
            self._heard = True
            self._give_up(f"the server reset it: error {code}", is_refused=code == ErrorCode.REFUSED_STREAM)

    def on_room(self, stream: int, more: int) -> None:
        if stream == self._stream:
            self._more_room += more

    def on_goaway(self, last: int, code: int) -> None:
        self._is_last = True
        if self.call is None or self._stream > last:
            self._give_up(f"the server takes no more requests: error {code}", is_refused=True)

    # Inside

    def _write(self, _transport: asyncio.Transport, head: Headers, body: bytes | bytearray) -> None:
        self._stream += 2
        self._more_room, self._untold, self._has_head = 0, 0, False
        self._trailers, self._rest = (), memoryview(body)
        self._framing.say_head(self._stream, head, ends=not body)
        self._go_on()

    def _go_on_soon(self) -> None:
        if self._room > 0 or self._framing.queued > SURROUND:
            self._go_on()
        elif self._framing.queued and self._acknowledging is None:
            self._acknowledging = asyncio.get_running_loop().call_later(ACKNOWLEDGED_WITHIN, self._go_on)

    @property
    def _room(self) -> int:
        """Bytes of the rest that may be sent."""
        framing = self._framing
        return min(len(self._rest), framing.first_room + self._more_room, framing.room)

    def _go_on(self) -> None:
        """Sends what the server takes."""
        self._stop_waiting()
        while (size := min(self._room, CONTENT)) > 0:
            part, self._rest = self._rest[:size], self._rest[size:]
            self._more_room -= size
            self._framing.say_data(self._stream, part, ends=not self._rest)
        if self.transport is not None:
            self.transport.write(self._framing.take())

    def _stop_waiting(self) -> None:
        if self._acknowledging is not None:
            self._acknowledging.cancel()
            self._acknowledging = None

    def _finish(self) -> None:
        # A server that answers before all has come wants no more of it.
        stays, self._rest = not (self._is_last or self._rest or self._stream >= WIDEST), memoryview(b"")
        self._end(self._trailers, stays=stays)

    def _give_up(self, reason: str, is_refused: bool = False) -> None:
        self._rest = memoryview(b"")
        self._kept.forget(self)
        self.fail(reason, is_refused=is_refused)
        self.abort()
