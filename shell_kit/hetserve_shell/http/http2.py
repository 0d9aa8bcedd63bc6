"""One HTTP/2 connection: requests beside each other, each on a stream of its own.

The library h2 keeps the protocol's state, compresses heads and counts windows; this module serves what it has read and
bounds what a client can take, as `connection` does for HTTP/1.1. Of what one read brings only the first request is
answered at once; each other one gets a turn of the loop. A read of many frames takes several turns, and the socket
waits meanwhile.
"""

from __future__ import annotations

import asyncio
import logging
from abc import abstractmethod
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from h2 import events
from h2.errors import ErrorCodes
from h2.exceptions import ProtocolError
from hyperframe.frame import GoAwayFrame

from hetserve_shell.http.connection import OpenConnection
from hetserve_shell.http.frames import CONTENT, WIDEST, Frames, protocol
from hetserve_shell.http.limits import Exchange, HttpError, too_large, too_many, too_slow
from hetserve_shell.http.takers import Headers

if TYPE_CHECKING:
    from hetserve_shell.http.server import HttpServer

log = logging.getLogger(__name__)

PROTOCOL: Final = "h2"
"""Its name where the two sides of a TLS handshake agree on one (ALPN)."""
BURST: Final = 65536
"""Bytes of answers before the socket is given them, and may say that the client does not read."""
PROGRESS: Final = CONTENT
"""Bytes of an answer that a client takes in the time for one that it does not take, or it is given up."""
ANY_STREAM: Final = 2**31 - 1
"""Says, in a GOAWAY, that whatever is on its way is still served."""


class Http2Connection(OpenConnection):
    def __init__(self, server: HttpServer) -> None:
        super().__init__(server)
        self._h2 = protocol(server.limits)
        self._frames = Frames(server.limits.head, server.now)
        self._exchanges: dict[int, Exchange] = {}
        self._queue: deque[Exchange] = deque()
        self._hearing: asyncio.Handle | None = None
        """The turn in which what is left of a read is heard."""
        self._turn: asyncio.Handle | None = None
        """The turn of the next request that waits."""
        self._widened = False
        """Whether the client may take more of the answers that wait."""
        self._unflushed = 0
        """Bytes of answers that the socket has not been given."""
        self._last = ANY_STREAM
        """Later streams are refused, and can be asked for again elsewhere."""
        self._closing = False
        """Whether we send no more."""

    # Asked by the server

    @property
    def _busy(self) -> bool:
        return bool(self._exchanges)

    def part(self) -> None:
        """Asks the client for no more requests; serves those that are on their way."""
        if self._open and not (self.parting or self._closing):
            self.parting = True
            self._say_last(ANY_STREAM)

    def finish(self) -> None:
        """Finishes the requests that have begun, then closes."""
        self._end_with_these()
        self._close_if_done()

    def check_time(self, now: float) -> None:
        if self._until is not None and now >= self._until:  # closing or unread
            self.abort()
            return
        if self._closing:
            return
        self._check_exchanges(now)
        if not self._paused:
            self._check_frames(now)
        self._flush()
        self._close_if_done()

    def give_up(self, exchange: Exchange) -> None:
        """Ends an answer that its client does not take."""
        self._give_up(exchange, ErrorCodes.ENHANCE_YOUR_CALM)
        self._flush()

    # Called by the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._h2.initiate_connection()
        self._h2.increment_flow_control_window(min(self._server.limits.body, WIDEST - 65535))
        self._flush()

    def data_received(self, data: bytes) -> None:
        if self._closing:
            return
        self._frames.feed(data, self._server.now)
        if self._hearing is None:
            self._hear()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._open = False
        self._forget_all()
        self._server.closed(self)

    def pause_writing(self) -> None:
        self._blocked = True
        self._until = self._server.now + self._server.limits.unread
        self._balance()

    def resume_writing(self) -> None:
        self._blocked = False
        self._until = self._server.now + self._server.limits.lingering if self._closing else None
        self._widened = True
        self._hear_soon()
        self._balance()

    # What has come

    def _hear(self) -> None:
        """Hears what has come, but no more than in one turn of the loop."""
        self._hearing = None
        if not self._open or self._closing or self._blocked:
            return
        try:
            self._hear_frames()
        except ProtocolError as error:
            log.info("a client breaks HTTP/2: %s", error)
            self._close()
            return
        if self._widened:
            self._go_on()
        if self._frames.left:
            self._hear_soon()
        self._balance()
        if self._turn is None:
            self._take_turn()
        else:
            self._end_turn()

    def _hear_soon(self) -> None:
        if self._hearing is None and not self._closing:
            self._hearing = asyncio.get_running_loop().call_soon(self._hear)

    def _hear_frames(self) -> None:
        """Raises ProtocolError."""
        for frame in self._frames.turn():
            found = self._h2.receive_data(frame)
            self._frames.count(found)
            for event in found:
                if take := _TAKERS.get(type(event)):
                    take(self, event)
            if self._closing:
                return

    def _balance(self) -> None:
        """Reads no more than can be heard, and answered to who takes it."""
        pause = self._blocked or self._hearing is not None
        if pause != self._paused and not self.transport.is_closing():
            self._paused = pause
            if pause:
                self.transport.pause_reading()
            else:
                self.transport.resume_reading()

    def _begin(self, event: events.RequestReceived) -> None:
        stream = event.stream_id
        if stream > self._last:
            self._h2.reset_stream(stream, ErrorCodes.REFUSED_STREAM)
            return
        self._exchanges[stream] = exchange = self._made(event)
        try:
            self._route(exchange)
        except HttpError as error:
            self._refuse(exchange, error)

    @abstractmethod
    def _made(self, event: events.RequestReceived) -> Exchange: ...

    @abstractmethod
    def _route(self, exchange: Exchange) -> None:
        """Finds who takes a request. Raises HttpError."""

    def _body(self, event: events.DataReceived) -> None:
        stream, data = event.stream_id, event.data
        self._h2.acknowledge_received_data(event.flow_controlled_length or 0, stream)
        exchange = self._exchanges.get(stream)
        if exchange is None or exchange.answer is not None or not data:
            return
        budget = self._server.budget
        exchange.parts.append(data)
        exchange.size += len(data)
        budget.used += len(data)
        if exchange.size > exchange.limit:
            self._refuse(exchange, too_large(exchange.limit))
        elif budget.used > budget.limit:
            self._refuse(exchange, too_many())
        else:
            self._grew(exchange)

    @abstractmethod
    def _grew(self, exchange: Exchange) -> None:
        """Some of a body has come."""

    def _end(self, event: events.StreamEnded) -> None:
        exchange = self._exchanges.get(event.stream_id)
        if exchange is None or exchange.answer is not None:
            return
        exchange.received, exchange.since = True, self._server.now
        self._enqueue(exchange)

    def _enqueue(self, exchange: Exchange) -> None:
        """A request is whole."""
        self._queue.append(exchange)

    def _reset(self, event: events.StreamReset) -> None:
        if exchange := self._exchanges.get(event.stream_id):
            self._forget(exchange)

    def _widen(self, _event: events.WindowUpdated | events.RemoteSettingsChanged) -> None:
        self._widened = True

    # Inside

    def _check_exchanges(self, now: float) -> None:
        limits = self._server.limits
        for exchange in list(self._exchanges.values()):
            unread = now >= exchange.since + limits.unread
            if exchange.answer is not None:
                if unread and exchange.sent < len(exchange.answer):
                    self._give_up(exchange, ErrorCodes.CANCEL)
            elif exchange.received:
                if unread and exchange in self._queue:  # behind answers that are not taken
                    self._give_up(exchange, ErrorCodes.REFUSED_STREAM)
            elif not self._blocked and now >= exchange.since + (within := self._takes(exchange)):
                self._refuse(exchange, too_slow(within))

    @abstractmethod
    def _takes(self, exchange: Exchange) -> float:
        """Seconds for a request to come whole."""

    def _check_frames(self, now: float) -> None:
        limits = self._server.limits
        if self._frames.unfinished and now >= self._frames.since + limits.waiting:
            self.finish()  # what has begun is still answered
        if not self._exchanges and now >= self.idle_since + (limits.idle if self._served else limits.waiting):
            self.finish()

    def _await_turn(self) -> None:
        if self._queue and self._turn is None and not self._blocked:
            self._turn = asyncio.get_running_loop().call_soon(self._take_turn)

    def _take_turn(self) -> None:
        self._turn = None
        if self._queue and self._open and not self._blocked:
            self._serve(self._queue.popleft())
        self._end_turn()
        self._await_turn()

    def _end_turn(self) -> None:
        """Sends what has been said."""
        self._flush()
        self._close_if_done()

    @abstractmethod
    def _serve(self, exchange: Exchange) -> None:
        """Lets a whole request be answered."""

    @abstractmethod
    def _refuse(self, exchange: Exchange, error: HttpError) -> None:
        """Answers a request before it is taken."""

    def _say(self, exchange: Exchange, head: Headers, body: bytes) -> None:
        """Sends the head of an answer, and what its client takes of its body."""
        if exchange.stream not in self._exchanges or not self._open:
            return  # the client has given it up
        exchange.answer = b"" if exchange.head_only else body
        exchange.since = self._server.now
        self._h2.send_headers(exchange.stream, head, end_stream=exchange.ends_with(0))
        self._send(exchange)
        if exchange.stream in self._exchanges:
            self._server.unsent.keep(exchange, self.give_up)

    def _go_on(self) -> None:
        """Sends what the client has made room for."""
        self._widened = False
        for exchange in [one for one in self._exchanges.values() if one.answer is not None]:
            self._send(exchange)

    def _send(self, exchange: Exchange) -> None:
        """Sends as much of an answer as the client takes."""
        stream, answer = exchange.stream, exchange.answer or b""
        while exchange.sent < len(answer) and not self._blocked:
            size = min(self._h2.local_flow_control_window(stream), CONTENT)
            if size <= 0:
                break
            part = answer[exchange.sent : exchange.sent + size]
            exchange.sent += len(part)
            self._h2.send_data(stream, part, end_stream=exchange.ends_with(exchange.sent))
            self._unflushed += len(part)
            if self._unflushed >= BURST:
                self._flush()
        if exchange.sent == len(answer) and exchange.whole:
            if exchange.trailers:
                self._h2.send_headers(stream, exchange.trailers, end_stream=True)
            # What the client still sends of a request that was refused is not wanted.
            self._give_up(exchange, None if exchange.received else ErrorCodes.NO_ERROR)
        elif exchange.sent >= exchange.noted + PROGRESS and self._last == ANY_STREAM:
            exchange.noted, exchange.since = exchange.sent, self._server.now
            self._server.unsent.went_on(exchange)

    def _give_up(self, exchange: Exchange, code: ErrorCodes | None) -> None:
        if code is not None:
            with suppress(ProtocolError):  # the client has ended it with the same frame
                self._h2.reset_stream(exchange.stream, code)
        self._forget(exchange)

    def _forget_all(self) -> None:
        self._frames.clear()
        for exchange in list(self._exchanges.values()):
            self._forget(exchange)

    def _forget(self, exchange: Exchange) -> None:
        self._release(exchange)
        self._server.unsent.release(exchange)
        self._exchanges.pop(exchange.stream, None)
        if exchange in self._queue:
            self._queue.remove(exchange)

    def _release(self, exchange: Exchange) -> None:
        self._server.budget.used -= exchange.size
        exchange.size = 0
        exchange.parts.clear()

    def _end_with_these(self) -> None:
        """Serves no more than the requests that have begun."""
        if self._open and self._last == ANY_STREAM and not self._closing:
            self.parting = True
            self._last = self._h2.highest_inbound_stream_id
            self._say_last(self._last)
            for exchange in self._exchanges.values():
                if exchange.received:  # from now on nothing renews its time
                    exchange.since = self._server.now

    def _say_last(self, stream: int) -> None:
        # Not by h2, which would then send nothing more: neither an answer nor a window.
        self._flush()
        self.transport.write(GoAwayFrame(0, last_stream_id=stream).serialize())

    def _flush(self) -> None:
        self._unflushed = 0
        if self._open and (data := self._h2.data_to_send()):
            self.transport.write(data)

    def _close_if_done(self) -> None:
        if self._last != ANY_STREAM and not self._exchanges and self._until is None:
            self._close()

    def _close(self) -> None:
        """Sends no more, and reads until the client is gone: a reset would overtake the last answers."""
        if not self._open or self._closing:
            return
        self._flush()
        self._closing, self._until = True, self._server.now + self._server.limits.lingering
        self._hearing = None  # a turn that still comes hears nothing
        self._forget_all()
        self._balance()
        if self.transport.can_write_eof():
            self.transport.write_eof()
        else:
            self.transport.close()


_TAKERS: Final[dict[type[events.Event], Callable[[Http2Connection, Any], None]]] = {
    events.RequestReceived: Http2Connection._begin,
    events.DataReceived: Http2Connection._body,
    events.StreamEnded: Http2Connection._end,
    events.StreamReset: Http2Connection._reset,
    events.WindowUpdated: Http2Connection._widen,
    events.RemoteSettingsChanged: Http2Connection._widen,
    events.ConnectionTerminated: lambda connection, _event: connection._close(),
}
