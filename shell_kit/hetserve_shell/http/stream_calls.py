"""Requests to one server over HTTP/2, by calls and without a task; see `calls`. One stream at a time, as instances are.

Only so is the connection's end that of one request.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final

from h2 import events
from h2.errors import ErrorCodes
from h2.exceptions import ProtocolError

from hetserve_shell.http.calls import SURROUND, CallConnection, KeptConnections
from hetserve_shell.http.frames import CONTENT, client_protocol
from hetserve_shell.http.takers import Headers

log = logging.getLogger(__name__)

ACKNOWLEDGED_WITHIN: Final = 0.01
"""Seconds until a server learns that its ping has come: each write costs as much as a head."""
WINDOW: Final = 1 << 20
"""Bytes of an answer on their way."""


class StreamConnection(CallConnection[Headers]):
    """HTTP/2. The head of a request begins with :method, :scheme, :path and :authority."""

    def __init__(self, kept: KeptConnections) -> None:
        super().__init__(kept)
        self._h2 = client_protocol(SURROUND, WINDOW)
        self._stream = 0
        self._rest = memoryview(b"")
        """What the server has made no room for yet."""
        self._trailers: Headers = ()
        self._acknowledging: asyncio.TimerHandle | None = None
        """Sends what the library alone has to say, such as an answer to a ping, unless a request goes before."""
        self._is_last = False
        """Whether the server takes no more requests."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._h2.initiate_connection()
        self._h2.increment_flow_control_window(WINDOW)
        super().connection_made(transport)

    def data_received(self, data: bytes) -> None:
        try:
            for event in self._h2.receive_data(data):
                if take := _TAKERS.get(type(event)):
                    take(self, event)
            if self._rest:
                self._go_on()
            elif self._acknowledging is None:
                self._acknowledging = asyncio.get_running_loop().call_later(ACKNOWLEDGED_WITHIN, self._go_on)
        except ProtocolError as error:
            self._give_up(f"the answer is not HTTP/2: {error}")
        except Exception as error:
            log.exception("hearing an answer failed")
            self._give_up(f"hearing the answer failed: {error}")

    def connection_lost(self, exc: Exception | None) -> None:
        if self._acknowledging is not None:
            self._acknowledging.cancel()
        super().connection_lost(exc)

    # Inside

    def _write(self, _transport: asyncio.Transport, head: Headers, body: bytes | bytearray) -> None:
        self._stream = self._h2.get_next_available_stream_id()
        self._trailers, self._rest = (), memoryview(body)
        self._h2.send_headers(self._stream, head, end_stream=not body)
        self._go_on()

    def _go_on(self) -> None:
        """Sends what the server takes."""
        while self._rest:
            size = min(self._h2.local_flow_control_window(self._stream), CONTENT)
            if size <= 0:
                break
            part, self._rest = self._rest[:size], self._rest[size:]
            self._h2.send_data(self._stream, bytes(part), end_stream=not self._rest)
        if self._acknowledging is not None:
            self._acknowledging.cancel()
            self._acknowledging = None
        if self.transport is not None and (data := self._h2.data_to_send()):
            self.transport.write(data)

    def _head(self, event: events.ResponseReceived) -> None:
        self._heard = True
        if self._listener is not None:
            headers = [header for header in event.headers if header[0][:1] != b":"]
            self._listener.on_head(int(dict(event.headers)[b":status"]), headers)

    def _piece(self, event: events.DataReceived) -> None:
        self._h2.acknowledge_received_data(event.flow_controlled_length or 0, event.stream_id)
        if self._listener is not None and event.data:
            self._listener.on_piece(event.data)

    def _trail(self, event: events.TrailersReceived) -> None:
        self._trailers = event.headers

    def _ended(self, _event: events.StreamEnded) -> None:
        # A server that answers before all has come wants no more of it.
        self._end(self._trailers, stays=not self._is_last and not self._rest)
        self._rest = memoryview(b"")

    def _reset(self, event: events.StreamReset) -> None:
        if event.stream_id == self._stream:
            self._heard = True
            self._give_up(f"the server reset it: {event.error_code}", event.error_code == ErrorCodes.REFUSED_STREAM)

    def _parts(self, event: events.ConnectionTerminated) -> None:
        self._is_last = True
        if self.call is None or self._stream > (event.last_stream_id or 0):
            self._give_up("the server takes no more requests", is_refused=True)

    def _give_up(self, reason: str, is_refused: bool = False) -> None:
        self._rest = memoryview(b"")
        self._kept.forget(self)
        self.fail(reason, is_refused=is_refused)
        self.abort()


_TAKERS: Final[dict[type[events.Event], Callable[[StreamConnection, Any], None]]] = {
    events.ResponseReceived: StreamConnection._head,
    events.DataReceived: StreamConnection._piece,
    events.TrailersReceived: StreamConnection._trail,
    events.StreamEnded: StreamConnection._ended,
    events.StreamReset: StreamConnection._reset,
    events.ConnectionTerminated: StreamConnection._parts,
}
