"""One HTTP/2 connection: requests beside each other, each on a stream of its own.

The library h2 keeps the protocol's state, compresses heads and counts windows; this module serves what it has read and
bounds what a client can take, as `connection` does for HTTP/1.1. Of what one read brings only the first request is
answered at once; each other one gets a turn of the loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final, cast

import orjson
from h2 import events
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.exceptions import DenialOfServiceError, ProtocolError
from h2.settings import SettingCodes, Settings
from hyperframe.frame import GoAwayFrame

from hetserve_shell.http.connection import Server
from hetserve_shell.http.limits import Handler, HttpError, LastAnswer, Limits, Reply, Result
from hetserve_shell.http.routing import (
    as_http_error,
    expects_continue,
    find_route,
    handler_of,
    too_large,
    too_many,
    too_slow,
)

log = logging.getLogger(__name__)

PROTOCOL: Final = "h2"
"""Its name where the two sides of a TLS handshake agree on one (ALPN)."""
SLICE: Final = 8192
"""Bytes that are read at once: nearly a thousand frames, at worst."""
IDLE_EVENTS: Final = 5000
"""Frames that ask for nothing, such as pings and windows, in half a second: 600 pods a second make some 1,000."""
FRAME: Final = 16384 + 9
"""Bytes of a frame at most."""
ANY_STREAM: Final = 2**31 - 1
"""Says, in a GOAWAY, that whatever is on its way is still served."""

Headers = list[tuple[bytes, bytes]]


class _Protocol(H2Connection):
    MAX_CLOSED_STREAMS = 1024
    """Of which it is remembered how they ended: 65,536 would take megabytes of each long connection."""


@dataclass(slots=True, eq=False)
class Exchange:
    """A request that came whole or in part, and its answer until all of it is sent.

    since: when it began, or its answer could not go on [s]. rest: of the answer, until the client takes more; None:
    there is no answer yet.
    """

    stream: int
    since: float
    handler: Handler
    head_only: bool
    parts: list[bytes] = field(default_factory=list)
    size: int = 0
    received: bool = False
    rest: bytes | None = None


class Http2Connection(asyncio.Protocol):
    transport: asyncio.Transport

    def __init__(self, server: Server) -> None:
        self._server = server
        self._h2 = _protocol(server.limits)
        self._exchanges: dict[int, Exchange] = {}
        self._queue: deque[Exchange] = deque()
        self._running = 0
        """Handlers that go on; also those of streams that the client has given up."""
        self._unseen, self._unseen_since = 0, server.now
        """Bytes of a frame or a head that is not whole yet, and since when they come."""
        self._idle_events = 0
        """Of frames that ask for nothing, since the last look at the time."""
        self._turn: asyncio.Handle | None = None
        self._had_turn = False
        self._open = False
        self._blocked = False
        self._last = ANY_STREAM
        """Later streams are refused, and can be asked for again elsewhere."""
        self._parting = False
        self._ended = self._closing = False
        """Whether the client, and whether we send no more."""
        self._until: float | None = None
        self.idle_since = server.now
        self._served = False

    # Asked by the server

    @property
    def worth(self) -> tuple[bool, bool, float]:
        """See `Bounded.worth`."""
        return bool(self._exchanges), self._served, self.idle_since

    @property
    def parting(self) -> bool:
        """Whether it ends with the requests that have begun."""
        return self._parting

    def part(self) -> None:
        """Asks the client for no more requests; serves those that are on their way."""
        if self._open and not self._parting:
            self._parting = True
            self._say_last(ANY_STREAM)

    def finish(self) -> None:
        """Finishes the requests that have begun, then closes."""
        self._end_with_these()
        self._close_if_done()

    def abort(self) -> None:
        if self._open:
            self.transport.abort()

    def check_time(self, now: float) -> None:
        limits = self._server.limits
        self._idle_events = 0
        if self._until is not None:  # closing or unread
            if now >= self._until:
                self.abort()
            return
        for exchange in list(self._exchanges.values()):
            if exchange.rest is not None and now >= exchange.since + limits.unread:
                self._give_up(exchange, ErrorCodes.CANCEL)
            elif not exchange.received and exchange.rest is None and now >= exchange.since + limits.waiting:
                self._refuse(exchange, too_slow(limits))
        if self._unseen and now >= self._unseen_since + limits.waiting:
            self._close()
        self._flush()
        if not self._exchanges and now >= self.idle_since + (limits.idle if self._served else limits.waiting):
            self.finish()
        self._close_if_done()

    # Called by the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self._open = True
        self._server.opened(self)
        self._h2.initiate_connection()
        self._h2.increment_flow_control_window(self._server.limits.body)
        self._flush()

    def data_received(self, data: bytes) -> None:
        if self._closing:
            return
        self._had_turn = False
        try:
            for start in range(0, len(data), SLICE):
                self._read(data[start : start + SLICE] if len(data) > SLICE else data)
        except ProtocolError as error:
            log.info("a client breaks HTTP/2: %s", error)
            self._close()
            return
        self._flush()
        self._close_if_done()

    def eof_received(self) -> bool:
        """The client sends no more; its whole requests are still answered."""
        for exchange in [one for one in self._exchanges.values() if not one.received]:
            self._forget(exchange)
        self._parting = self._ended = True
        self._last = self._h2.highest_inbound_stream_id
        return bool(self._exchanges)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._open = False
        for exchange in list(self._exchanges.values()):
            self._forget(exchange)
        self._server.closed(self)

    def pause_writing(self) -> None:
        self._blocked = True
        self._until = self._server.now + self._server.limits.unread
        self.transport.pause_reading()

    def resume_writing(self) -> None:
        self._blocked = False
        self._until = self._server.now + self._server.limits.lingering if self._closing else None
        self.transport.resume_reading()
        self._await_turn()

    # What h2 has read

    def _read(self, data: bytes) -> None:
        """Raises ProtocolError."""
        found = self._h2.receive_data(data)
        if not self._unseen:
            self._unseen_since = self._server.now
        self._unseen = 0 if found else self._unseen + len(data)
        if self._unseen > self._server.limits.head + FRAME:
            raise DenialOfServiceError("a frame or a head that is too large")
        self._take(found)

    def _take(self, found: list[events.Event]) -> None:
        """Raises ProtocolError where too little of it is of requests."""
        for event in found:
            self._idle_events += _asks_for_nothing(event)
            if take := _TAKERS.get(type(event)):
                take(self, event)
        if self._idle_events > IDLE_EVENTS:
            raise DenialOfServiceError(f"more than {IDLE_EVENTS} frames that ask for nothing")

    def _begin(self, event: events.RequestReceived) -> None:
        stream = event.stream_id
        if stream > self._last:
            with suppress(ProtocolError):  # the client has given it up itself
                self._h2.reset_stream(stream, ErrorCodes.REFUSED_STREAM)
            return
        self._exchanges[stream] = exchange = Exchange(stream, self._server.now, _unanswered, head_only=False)
        try:
            self._route(exchange, event.headers)
        except HttpError as error:
            self._refuse(exchange, error)
        except ProtocolError:  # it was given up in the same read
            self._forget(exchange)

    def _route(self, exchange: Exchange, headers: Headers) -> None:
        server, fields = self._server, dict(headers)  # h2 refuses a head that names its path or method twice
        path = fields[b":path"].partition(b"?")[0]
        route, exchange.head_only = find_route(server.routes, server.method, fields[b":method"], path)
        if _exceeds(fields.get(b"content-length", b""), server.limits.body):
            raise too_large(server.limits)
        if b"expect" in fields and expects_continue(_values(headers, b"expect")):
            self._h2.send_headers(exchange.stream, [(b":status", b"100")])
        exchange.handler = handler_of(route, path, _values(headers, b"authorization"))

    def _body(self, event: events.DataReceived) -> None:
        stream, data = event.stream_id, event.data
        self._h2.acknowledge_received_data(event.flow_controlled_length or 0, stream)
        exchange = self._exchanges.get(stream)
        if exchange is None or exchange.rest is not None or not data:
            return
        budget, limits = self._server.budget, self._server.limits
        exchange.parts.append(data)
        exchange.size += len(data)
        budget.used += len(data)
        if exchange.size > limits.body:
            self._refuse(exchange, too_large(limits))
        elif budget.used > budget.limit:
            self._refuse(exchange, too_many())

    def _end(self, event: events.StreamEnded) -> None:
        exchange = self._exchanges.get(event.stream_id)
        if exchange is None or exchange.rest is not None:
            return
        exchange.received = True
        if self._had_turn or self._queue or self._full:
            self._queue.append(exchange)
            self._await_turn()
        else:
            self._had_turn = True
            self._serve(exchange)

    def _reset(self, event: events.StreamReset) -> None:
        if exchange := self._exchanges.get(event.stream_id):
            self._forget(exchange)

    def _go_on(self, _event: events.WindowUpdated | events.RemoteSettingsChanged) -> None:
        for exchange in [one for one in self._exchanges.values() if one.rest is not None]:
            try:
                self._send(exchange)
            except ProtocolError:
                self._forget(exchange)

    def _gone(self, _event: events.ConnectionTerminated) -> None:
        self._close()

    # Inside

    @property
    def _full(self) -> bool:
        return self._blocked or self._running >= self._server.limits.streams

    def _await_turn(self) -> None:
        if self._queue and self._turn is None and not self._full:
            self._turn = asyncio.get_running_loop().call_soon(self._take_turn)

    def _take_turn(self) -> None:
        self._turn = None
        if self._queue and self._open and not self._full:
            self._serve(self._queue.popleft())
            self._flush()
        self._await_turn()
        self._close_if_done()

    def _serve(self, exchange: Exchange) -> None:
        body = exchange.parts[0] if len(exchange.parts) == 1 else b"".join(exchange.parts)
        self._release(exchange)
        try:
            result = exchange.handler(body)
        except Exception as error:
            self._refuse(exchange, as_http_error(error))
            return
        if isinstance(result, bytes | Reply):
            self._answer(exchange, result)
        else:
            self._running += 1
            self._server.start_task(self._complete(result, exchange))

    async def _complete(self, work: Coroutine[Any, Any, Result], exchange: Exchange) -> None:
        try:
            self._answer(exchange, await work)
        except Exception as error:
            self._refuse(exchange, as_http_error(error))
        self._running -= 1
        self._flush()
        self._await_turn()
        self._close_if_done()

    def _answer(self, exchange: Exchange, result: Result) -> None:
        self._served = True
        self.idle_since = self._server.now
        if isinstance(result, Reply):
            self._reply(exchange, result.status, result.media_type.encode(), b"".join(result.blocks))
            return
        self._reply(exchange, HTTPStatus.OK, b"application/json", result)
        if isinstance(result, LastAnswer):
            self._end_with_these()  # who calls closes when all are done: the same read may have brought more

    def _refuse(self, exchange: Exchange, error: HttpError) -> None:
        log.warning("%d: %s", error.status, error)
        self._release(exchange)
        more: Headers = [(b"allow", error.allow.encode())] if error.allow else []
        if error.status == HTTPStatus.UNAUTHORIZED:
            more.append((b"www-authenticate", b"Bearer"))
        self._reply(exchange, error.status, b"application/json", orjson.dumps({"Error": str(error)}), more)

    def _reply(
        self, exchange: Exchange, status: HTTPStatus, media_type: bytes, body: bytes, more: Headers | None = None
    ) -> None:
        if exchange.stream not in self._exchanges or not self._open:
            return  # the client has given it up
        head: Headers = [
            (b":status", b"%d" % status),
            (b"content-type", media_type),
            (b"content-length", b"%d" % len(body)),
            (b"date", self._server.date),
            *(more or ()),
        ]
        exchange.rest = b"" if exchange.head_only else body
        exchange.since = self._server.now
        try:
            self._h2.send_headers(exchange.stream, head, end_stream=not exchange.rest)
            self._send(exchange)
        except ProtocolError:  # h2 has read that the client gave it up, and we have not yet
            self._forget(exchange)

    def _send(self, exchange: Exchange) -> None:
        """Sends as much of an answer as the client takes. Raises ProtocolError where it takes none any more."""
        stream, rest = exchange.stream, exchange.rest or b""
        while rest:
            size = min(len(rest), self._h2.local_flow_control_window(stream), self._h2.max_outbound_frame_size)
            if size <= 0:
                break
            exchange.since = self._server.now
            self._h2.send_data(stream, rest[:size], end_stream=size == len(rest))
            rest = rest[size:]
        exchange.rest = rest
        if not rest:
            # What the client still sends of a request that was refused is not wanted.
            self._give_up(exchange, None if exchange.received else ErrorCodes.NO_ERROR)

    def _give_up(self, exchange: Exchange, code: ErrorCodes | None) -> None:
        if code is not None:
            with suppress(ProtocolError):  # the client has ended it in the same read
                self._h2.reset_stream(exchange.stream, code)
        self._forget(exchange)

    def _forget(self, exchange: Exchange) -> None:
        self._release(exchange)
        self._exchanges.pop(exchange.stream, None)
        if exchange in self._queue:
            self._queue.remove(exchange)

    def _release(self, exchange: Exchange) -> None:
        self._server.budget.used -= exchange.size
        exchange.size = 0
        exchange.parts.clear()

    def _end_with_these(self) -> None:
        """Serves no more than the requests that have begun."""
        if self._open and self._last == ANY_STREAM:
            self._parting = True
            self._last = self._h2.highest_inbound_stream_id
            self._say_last(self._last)

    def _say_last(self, stream: int) -> None:
        # Not by h2, which would then send nothing more: neither an answer nor a window.
        self._flush()
        self.transport.write(GoAwayFrame(0, last_stream_id=stream).serialize())

    def _flush(self) -> None:
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
        for exchange in list(self._exchanges.values()):
            self._forget(exchange)
        self._closing, self._until = True, self._server.now + self._server.limits.lingering
        if self.transport.can_write_eof() and not self._ended:
            self.transport.write_eof()
        else:
            self.transport.close()


_TAKERS: Final[dict[type[events.Event], Callable[[Http2Connection, Any], None]]] = {
    events.RequestReceived: Http2Connection._begin,
    events.DataReceived: Http2Connection._body,
    events.StreamEnded: Http2Connection._end,
    events.StreamReset: Http2Connection._reset,
    events.WindowUpdated: Http2Connection._go_on,
    events.RemoteSettingsChanged: Http2Connection._go_on,
    events.ConnectionTerminated: Http2Connection._gone,
}


def _asks_for_nothing(event: events.Event) -> bool:
    if isinstance(event, events.DataReceived):
        return not event.data and event.stream_ended is None
    return not isinstance(event, events.RequestReceived | events.StreamEnded)


def _protocol(limits: Limits) -> H2Connection:
    # What we send is made here alone, and need not be looked at as if it came from somewhere else.
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


def _values(headers: Headers, name: bytes) -> list[bytes]:
    return [value for key, value in headers if key == name]


def _exceeds(length: bytes, limit: int) -> bool:
    """Whether a Content-Length is beyond the limit; h2 compares it with what comes."""
    return len(length) > len(str(limit)) or int(length or b"0") > limit


def _unanswered(_body: bytes) -> Result:
    raise AssertionError
