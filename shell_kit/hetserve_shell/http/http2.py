"""One HTTP/2 connection: requests beside each other, each on a stream of its own.

`framing` has what is the same on both sides; this module serves what a client asks and bounds what it can take, as
`connection` does for HTTP/1.1. Of what one read brings only the first request is answered at once; each other one gets
a turn of the loop. A read of many frames takes several turns, and the socket waits meanwhile.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Coroutine
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

import orjson

from hetserve_shell.http.connection import OpenConnection
from hetserve_shell.http.frames import CONTENT, BrokenError, ClientFrames, ErrorCode
from hetserve_shell.http.framing import (
    DEFAULT,
    INITIAL_WINDOW_SIZE,
    MAX_CONCURRENT_STREAMS,
    MAX_HEADER_LIST_SIZE,
    WIDEST,
    Framing,
)
from hetserve_shell.http.heads import HeadFields, Heads
from hetserve_shell.http.limits import (
    Exchange,
    HttpError,
    LastAnswer,
    Reply,
    Result,
    as_http_error,
    expects_continue,
    find_route,
    handler_of,
    too_large,
    too_many,
    too_slow,
    values_of,
)
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
_DIGITS: Final = 19
"""Of a length at most."""
NO_MORE: Final[Headers] = ()


class Http2Connection(OpenConnection):
    def __init__(self, server: HttpServer) -> None:
        super().__init__(server)
        limits = server.limits
        settings = {
            MAX_CONCURRENT_STREAMS: limits.streams,
            INITIAL_WINDOW_SIZE: min(limits.body + 1, WIDEST),
            MAX_HEADER_LIST_SIZE: limits.head,
        }
        self._window = settings[INITIAL_WINDOW_SIZE]
        self._framing = Framing(self, b"", Heads(limits.head), settings, min(limits.body + DEFAULT, WIDEST))
        self._frames = ClientFrames(server.now)
        self._exchanges: dict[int, Exchange] = {}
        self._queue: deque[Exchange] = deque()
        self._running = 0
        """Handlers that go on; also those of streams that the client has given up."""
        self._hearing: asyncio.Handle | None = None
        """The turn in which what is left of a read is heard."""
        self._turn: asyncio.Handle | None = None
        """The turn of the next request that waits."""
        self._widened = False
        """Whether the client may take more of the answers that wait."""
        self._highest = 0
        """The last stream that has begun."""
        self._last = ANY_STREAM
        """Later streams are refused, and can be asked for again elsewhere."""
        self._ended = self._closing = False
        """Whether the client, and whether we send no more."""

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
        self._give_up(exchange, ErrorCode.ENHANCE_YOUR_CALM)
        self._flush()

    # Called by the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._flush()

    def data_received(self, data: bytes) -> None:
        if self._closing:
            return
        self._frames.come(data, self._server.now)
        if self._hearing is None:
            self._hear()

    def eof_received(self) -> bool:
        """The client sends no more; its whole requests are still answered."""
        self._ended = True
        if self._blocked or self._hearing is not None:
            return True
        self._hear_end()
        return bool(self._exchanges)

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
        except BrokenError as error:
            log.info("a client breaks HTTP/2: %s", error)
            self._framing.say_goaway(self._highest, error.code)
            self._close()
            return
        if self._widened:
            self._go_on()
        if self._frames.left:
            self._hear_soon()
        elif self._ended:
            self._hear_end()
        self._balance()
        if self._turn is None:
            self._take_turn()
        else:
            self._end_turn()

    def _hear_soon(self) -> None:
        if self._hearing is None and not self._closing:
            self._hearing = asyncio.get_running_loop().call_soon(self._hear)

    def _hear_frames(self) -> None:
        """Raises BrokenError."""
        for frame in self._frames.turn():
            if not self._framing.hear(*frame):
                self._frames.count_idle()
            if self._closing:
                return

    def _hear_end(self) -> None:
        for exchange in [one for one in self._exchanges.values() if not one.received]:
            self._forget(exchange)
        self.parting = True
        self._last = self._highest

    def _balance(self) -> None:
        """Reads no more than can be heard, and answered to who takes it."""
        pause = self._blocked or self._hearing is not None
        if pause != self._paused and not self.transport.is_closing():
            self._paused = pause
            if pause:
                self.transport.pause_reading()
            else:
                self.transport.resume_reading()

    # Called by the framing

    def on_head(self, stream: int, head: HeadFields, *, ends: bool) -> bool:
        if (exchange := self._exchanges.get(stream)) is not None:
            if exchange.received or not ends:
                raise BrokenError("a second head", ErrorCode.STREAM_CLOSED)
            exchange.received = True
            self._end(exchange)
            return True
        if stream <= self._highest:  # it is over
            return False
        if not stream % 2 or b":method" not in head.pseudo:
            raise BrokenError(f"a head without a method, or of stream {stream}")
        self._highest = stream
        if stream > self._last or len(self._exchanges) >= self._server.limits.streams:
            self._framing.say_reset(stream, ErrorCode.REFUSED_STREAM)
            return False
        self._exchanges[stream] = exchange = self._made(stream, head)
        exchange.received = ends
        try:
            exchange.length = self._length(head, ends)
            self._route(exchange, head)
        except HttpError as error:
            self._refuse(exchange, error)
        if ends:
            self._end(exchange)
        return True

    def on_data(self, stream: int, piece: bytes, taken: int, *, ends: bool) -> bool:
        exchange = self._exchanges.get(stream)
        if exchange is None:
            self._check_begun(stream)
            return False
        if exchange.received:
            raise BrokenError("content behind its end", ErrorCode.STREAM_CLOSED)
        exchange.received = ends
        exchange.untold = self._framing.told(stream, exchange.untold + taken, self._window)
        if piece and exchange.answer is None:
            self._body(exchange, piece)
        if ends:
            self._end(exchange)
        return ends or bool(piece)

    def on_reset(self, stream: int, code: int) -> None:  # noqa: ARG002
        self._check_begun(stream)
        if exchange := self._exchanges.get(stream):
            self._forget(exchange)

    def on_room(self, stream: int, more: int) -> None:
        self._check_begun(stream)
        if exchange := self._exchanges.get(stream):
            exchange.more_room += more
            if self._framing.first_room + exchange.more_room > WIDEST:
                raise BrokenError(f"a window that grows by {more} bytes", ErrorCode.FLOW_CONTROL_ERROR)
        self._widened = True

    def on_goaway(self, last: int, code: int) -> None:  # noqa: ARG002
        """Of ours there is no stream; its own go on, unless it says that it is at its end."""
        if code:
            self._close()
        else:
            self._end_with_these()

    def _check_begun(self, stream: int) -> None:
        if stream > self._highest:
            raise BrokenError(f"stream {stream} has not begun")

    def _length(self, head: HeadFields, ends: bool) -> int | None:
        """Bytes of the body, where its head says so. Raises HttpError."""
        value = head.firsts.get(b"content-length")
        if value is None:
            return 0 if ends else None
        if not value.isdigit():
            raise HttpError(HTTPStatus.BAD_REQUEST, f"content-length {value[:40]!r}: must be a number of bytes")
        if len(value) > _DIGITS:
            raise too_large(self._server.limits.body)
        return int(value)

    def _made(self, stream: int, head: HeadFields) -> Exchange:  # noqa: ARG002
        return Exchange(stream, self._server.now, unanswered, self._server.limits.body)

    def _route(self, exchange: Exchange, head: HeadFields) -> None:
        """Finds who answers. Raises HttpError."""
        server, firsts = self._server, head.firsts
        path = head.pseudo.get(b":path", b"").partition(b"?")[0]  # CONNECT names none
        route, exchange.head_only = find_route(server.routes, server.method, head.pseudo[b":method"], path)
        if (exchange.length or 0) > server.limits.body:
            raise too_large(server.limits.body)
        if b"expect" in firsts and expects_continue(values_of(head.headers, b"expect")):
            self._framing.say_head(exchange.stream, [(b":status", b"100")], ends=False)
        credentials = values_of(head.headers, b"authorization") if b"authorization" in firsts else ()
        exchange.handler = handler_of(route, path, credentials)

    def _body(self, exchange: Exchange, piece: bytes) -> None:
        budget = self._server.budget
        exchange.parts.append(piece)
        exchange.size += len(piece)
        budget.used += len(piece)
        if exchange.size > exchange.limit:
            self._refuse(exchange, too_large(exchange.limit))
        elif budget.used > budget.limit:
            self._refuse(exchange, too_many())
        else:
            self._grew(exchange)

    def _grew(self, exchange: Exchange) -> None:
        """Some of a body has come."""

    def _end(self, exchange: Exchange) -> None:
        """A request has come to its end."""
        if exchange.answer is not None:
            return
        exchange.since = self._server.now
        if exchange.length in {None, exchange.size}:
            self._enqueue(exchange)
        else:
            said = f"content-length {exchange.length}: {exchange.size} bytes have come"
            self._refuse(exchange, HttpError(HTTPStatus.BAD_REQUEST, said))

    def _enqueue(self, exchange: Exchange) -> None:
        """A request is whole."""
        self._queue.append(exchange)

    # Inside

    def _check_exchanges(self, now: float) -> None:
        limits = self._server.limits
        for exchange in list(self._exchanges.values()):
            unread = now >= exchange.since + limits.unread
            if exchange.answer is not None:
                if unread and exchange.sent < len(exchange.answer):
                    self._give_up(exchange, ErrorCode.CANCEL)
            elif exchange.received:
                if unread and exchange in self._queue:  # behind answers that are not taken
                    self._give_up(exchange, ErrorCode.REFUSED_STREAM)
            elif not self._blocked and now >= exchange.since + (within := self._takes(exchange)):
                self._refuse(exchange, too_slow(within))

    def _takes(self, _exchange: Exchange) -> float:
        """Seconds for a request to come whole."""
        return self._server.limits.waiting

    def _check_frames(self, now: float) -> None:
        limits = self._server.limits
        if self._frames.unfinished and now >= self._frames.since + limits.waiting:
            self.finish()  # what has begun is still answered
        if not self._exchanges and now >= self.idle_since + (limits.idle if self._served else limits.waiting):
            self.finish()

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
        self._end_turn()
        self._await_turn()

    def _end_turn(self) -> None:
        """Sends what has been said."""
        self._flush()
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
        body = orjson.dumps({"Error": str(error)})
        self._reply(exchange, error.status, b"application/json", body, error.headers)

    def _reply(self, exchange: Exchange, status: HTTPStatus, kind: bytes, body: bytes, more: Headers = NO_MORE) -> None:
        head = [
            (b":status", b"%d" % status),
            (b"content-type", kind),
            (b"content-length", b"%d" % len(body)),
            (b"date", self._server.date),
            *more,
        ]
        self._say(exchange, head, body)

    def _say(self, exchange: Exchange, head: Headers, body: bytes) -> None:
        """Sends the head of an answer, and what its client takes of its body."""
        if exchange.stream not in self._exchanges or not self._open:
            return  # the client has given it up
        exchange.answer = b"" if exchange.head_only else body
        exchange.since = self._server.now
        self._framing.say_head(exchange.stream, head, ends=exchange.ends_with(0))
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
        stream, answer, framing = exchange.stream, exchange.answer or b"", self._framing
        while exchange.sent < len(answer) and not self._blocked:
            size = min(framing.first_room + exchange.more_room, framing.room, CONTENT)
            if size <= 0:
                break
            part = answer[exchange.sent : exchange.sent + size]
            exchange.sent += len(part)
            exchange.more_room -= len(part)
            framing.say_data(stream, part, ends=exchange.ends_with(exchange.sent))
            if framing.queued >= BURST:
                self._flush()
        if exchange.sent == len(answer) and exchange.whole:
            if exchange.trailers:
                framing.say_head(stream, exchange.trailers, ends=True)
            # What the client still sends of a request that was refused is not wanted.
            self._give_up(exchange, None if exchange.received else ErrorCode.NO_ERROR)
        elif exchange.sent >= exchange.noted + PROGRESS and self._last == ANY_STREAM:
            exchange.noted, exchange.since = exchange.sent, self._server.now
            self._server.unsent.went_on(exchange)

    def _give_up(self, exchange: Exchange, code: ErrorCode | None) -> None:
        if code is not None:
            self._framing.say_reset(exchange.stream, code)
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
            self._last = self._highest
            self._say_last(self._last)
            for exchange in self._exchanges.values():
                if exchange.received:  # from now on nothing renews its time
                    exchange.since = self._server.now

    def _say_last(self, stream: int) -> None:
        self._framing.say_goaway(stream, ErrorCode.NO_ERROR)
        self._flush()

    def _flush(self) -> None:
        if self._open and self._framing.queued:
            self.transport.write(self._framing.take())

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
        if self.transport.can_write_eof() and not self._ended:
            self.transport.write_eof()
        else:
            self.transport.close()


def unanswered(_body: bytes) -> Result:
    raise AssertionError
