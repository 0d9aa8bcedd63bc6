"""One connection of HTTP/2: requests beside each other, gRPC among them, each on a stream of its own.

`framing` has what is the same on both sides; this module lets takers answer what a client asks, and bounds what it can
take, as `http1` does. Of what one read brings only the first request is answered at once; each other one gets a turn of
the loop. A read of many frames takes several turns, and the socket waits meanwhile. Of gRPC, the router of heads is
asked once a message's prefix has come, so that it knows the length of the body.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import TYPE_CHECKING, Final

from hetserve_shell.http import grpc
from hetserve_shell.http.connection import OpenConnection
from hetserve_shell.http.frames import CONTENT, RESET, BrokenError, ClientFrames, ErrorCode
from hetserve_shell.http.framing import WIDEST, HeadFields, server_side, window_of
from hetserve_shell.http.limits import (
    HttpError,
    as_http_error,
    expects_continue,
    too_large,
    too_many,
    too_slow,
    values_of,
)
from hetserve_shell.http.streams import BURST, Exchange, StreamReplier, request_of
from hetserve_shell.http.takers import Headers, Taker, say_gone

if TYPE_CHECKING:
    from hetserve_shell.http.server import HttpServer

log = logging.getLogger(__name__)

PROTOCOL: Final = "h2"
"""Its name where the two sides of a TLS handshake agree on one (ALPN)."""
PROGRESS: Final = CONTENT
"""Bytes of an answer that a client takes in the time for one that it does not take, or it is given up."""
ANY_STREAM: Final = 2**31 - 1
"""Says, in a GOAWAY, that whatever is on its way is still served."""


class Http2Connection(OpenConnection):
    def __init__(self, server: HttpServer) -> None:
        super().__init__(server)
        self._framing = server_side(self, server.limits)
        self._frames = ClientFrames(server.now)
        self._exchanges: dict[int, Exchange] = {}
        self._queue: deque[Exchange] = deque()
        self._hearing: asyncio.Handle | None = None
        """The turn in which what is left of a read is heard."""
        self._turn: asyncio.Handle | None = None
        """The turn of the next request that waits."""
        self._settling: asyncio.Handle | None = None
        """The turn in which all is sent that was said in one before: each write costs as much as an answer."""
        self._widened = False
        """Whether the client may take more of the answers that wait."""
        self._highest = 0
        """The last stream that has begun."""
        self._last = ANY_STREAM
        """Later streams are refused, and can be asked for again elsewhere."""
        self._closing = False
        """Whether we send no more."""

    # Asked by the server

    @property
    def _busy(self) -> bool:
        return bool(self._exchanges)

    @property
    def worth(self) -> tuple[bool, bool, float]:
        return any(one.pausing is None for one in self._exchanges.values()), self._served, self.idle_since

    def part(self) -> None:
        """Asks the client for no more requests; serves those that are on their way."""
        if self._open and not (self.parting or self._closing):
            self.parting = True
            self._framing.say_goaway(ANY_STREAM, ErrorCode.NO_ERROR)
            self._flush()

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
        """Ends an answer that its client does not take.

        Its taker hears of it in the next turn: in this one another may be within an answer of its own.
        """
        taker = self.release(exchange)
        self.reset(exchange, ErrorCode.ENHANCE_YOUR_CALM)
        if taker is not None:
            asyncio.get_running_loop().call_soon(say_gone, taker)

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
        """A client that ends its side waits for nothing more."""
        self._forget_all()
        return False

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
            for frame in self._frames.turn():
                if not self._framing.hear(*frame):
                    self._frames.count_idle()
                if self._closing:
                    break
        except BrokenError as error:
            log.info("a client breaks HTTP/2: %s", error)
            self._framing.say_goaway(self._highest, error.code)
            self._close()
            return
        except Exception:
            log.exception("hearing a client of HTTP/2 failed")
            self._framing.say_goaway(self._highest, ErrorCode.INTERNAL_ERROR)
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
            self.settle()

    def _hear_soon(self) -> None:
        if self._hearing is None and not self._closing:
            self._hearing = asyncio.get_running_loop().call_soon(self._hear)

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
        exchange = Exchange(stream, request_of(head), self._server.now, self._server.limits.body, received=ends)
        self._exchanges[stream] = exchange
        try:
            exchange.check_head()
            if not exchange.head.is_grpc:
                self._ask(exchange)
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
        exchange.untold = self._framing.told(stream, exchange.untold + taken, window_of(self._server.limits))
        if piece and exchange.answer is None:
            self._add(exchange, piece)
        if ends:
            self._end(exchange)
        return ends or bool(piece)

    def on_reset(self, stream: int, code: int) -> None:  # noqa: ARG002
        self._check_begun(stream)
        if exchange := self._exchanges.get(stream):
            self._forget(exchange)
            self._frames.count_idle(RESET)

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

    # A request comes

    def _ask(self, exchange: Exchange) -> None:
        """Finds who takes a request. Raises HttpError."""
        head = exchange.head
        try:
            exchange.taker = taker = self._server.router.asked(head)
        except Exception as error:
            raise as_http_error(error) from None
        limit = min(taker.limit, self._server.limits.body)
        exchange.limit = limit + (grpc.PREFIX if head.is_grpc else 0)
        if head.length is not None:
            if head.length > exchange.limit:
                raise too_large(limit)
            exchange.limit = head.length
        if head.get(b"expect") and expects_continue(values_of(head.headers, b"expect")):
            self._framing.say_head(exchange.stream, [(b":status", b"100")], ends=False)

    def _add(self, exchange: Exchange, piece: bytes) -> None:
        """A piece of a body has come."""
        budget = self._server.budget
        exchange.parts.append(piece)
        exchange.size += len(piece)
        budget.used += len(piece)
        try:
            if exchange.head.is_grpc and exchange.taker is None and exchange.size >= grpc.PREFIX:
                exchange.head.length = grpc.whole_length(b"".join(exchange.parts))
                self._ask(exchange)
            if exchange.size > exchange.limit:
                raise too_large(exchange.limit)
            if budget.used > budget.limit:
                raise too_many()
        except HttpError as error:
            self._refuse(exchange, error)

    def _end(self, exchange: Exchange) -> None:
        """The end of a request has come."""
        if exchange.answer is not None:
            return
        exchange.since = self._server.now
        try:
            exchange.check_whole()
            self._queue.append(exchange)
        except HttpError as error:
            self._refuse(exchange, error)

    # An answer goes; called by its replier

    @property
    def blocked(self) -> bool:
        return self._blocked

    @property
    def date(self) -> bytes:
        return self._server.date

    def awaits(self, exchange: Exchange) -> bool:
        """Whether the client has not given it up."""
        return self._open and exchange.stream in self._exchanges

    def say(self, exchange: Exchange, status: int, headers: Headers, body: bytes) -> None:
        """Begins an answer, or says all of it where it is whole."""
        self._served, self.idle_since = True, self._server.now
        if not self.awaits(exchange):
            return
        exchange.answer = b"" if exchange.head.method == b"HEAD" else body
        exchange.since = self._server.now
        self._framing.say_head(exchange.stream, [(b":status", b"%d" % status), *headers], ends=exchange.ends_with(0))
        self._send_or_keep(exchange)

    def add(self, exchange: Exchange, piece: bytes) -> None:
        """Goes on with an answer."""
        if exchange.add_to_answer(piece):
            exchange.since = self._server.now
        self._send_or_keep(exchange)

    def end(self, exchange: Exchange, trailers: Headers) -> None:
        exchange.whole, exchange.trailers = True, trailers
        if not trailers and exchange.sent == len(exchange.answer or b""):
            self._framing.say_data(exchange.stream, b"", ends=True)
        self._send(exchange)
        self.settle()

    def release(self, exchange: Exchange) -> Taker | None:
        """Nothing more is said to a request; returns who took it."""
        taker, exchange.taker = exchange.taker, None
        if exchange.reply is not None:
            exchange.reply.on_resume = None
        self._server.budget.used -= exchange.size
        exchange.size = 0
        exchange.parts.clear()
        return taker

    def reset(self, exchange: Exchange, code: ErrorCode) -> None:
        self._framing.say_reset(exchange.stream, code)
        self._forget(exchange)
        self.settle()

    def settle(self) -> None:
        """Sends what has been said, in the next turn."""
        if self._settling is None:
            self._settling = asyncio.get_running_loop().call_soon(self._settle)

    # Inside

    def _check_exchanges(self, now: float) -> None:
        limits = self._server.limits
        for exchange in list(self._exchanges.values()):
            unread = now >= exchange.since + limits.unread
            if exchange.answer is not None:
                if unread and exchange.sent < len(exchange.answer):
                    self.reset(exchange, ErrorCode.CANCEL)
            elif exchange.received:
                if unread and exchange in self._queue:  # behind answers that are not taken
                    self.reset(exchange, ErrorCode.REFUSED_STREAM)
            elif not self._blocked:
                within = limits.waiting + (0.0 if exchange.taker is None else limits.uploading)
                if now >= exchange.since + within:
                    self._refuse(exchange, too_slow(within))

    def _check_frames(self, now: float) -> None:
        limits = self._server.limits
        if self._frames.unfinished and now >= self._frames.since + limits.waiting:
            self.finish()  # what has begun is still answered
        if not self._exchanges and now >= self.idle_since + (limits.idle if self._served else limits.waiting):
            self.finish()

    def _take_turn(self) -> None:
        self._turn = None
        if self._queue and self._open and not self._blocked:
            self._serve(self._queue.popleft())
        self.settle()
        if self._queue and self._turn is None and not self._blocked:
            self._turn = asyncio.get_running_loop().call_soon(self._take_turn)

    def _settle(self) -> None:
        self._settling = None
        self._flush()
        self._close_if_done()

    def _serve(self, exchange: Exchange) -> None:
        exchange.reply = reply = StreamReplier(self, exchange)
        if exchange.taker is None:
            return
        try:
            exchange.taker.take(exchange.take_body(), reply)
        except Exception as error:
            reply.refuse(as_http_error(error))

    def _refuse(self, exchange: Exchange, error: HttpError) -> None:
        """Before it was taken."""
        taker, exchange.head.refused = self.release(exchange), error.status
        StreamReplier(self, exchange).say(error)
        if taker is not None:
            say_gone(taker)

    def _send_or_keep(self, exchange: Exchange) -> None:
        self._send(exchange)
        if exchange.stream in self._exchanges:
            self._server.unsent.keep(exchange, self.give_up)
        self.settle()

    def _go_on(self) -> None:
        """Sends what the client has made room for."""
        self._widened = False
        if self._framing.room <= 0:
            return
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
            if not exchange.received:  # what the client still sends of a request that was refused is not wanted
                framing.say_reset(stream, ErrorCode.NO_ERROR)
            self._forget(exchange)
        elif exchange.sent >= exchange.noted + PROGRESS and self._last == ANY_STREAM:
            exchange.noted, exchange.since = exchange.sent, self._server.now
            self._server.unsent.went_on(exchange)
        reply = exchange.reply
        if reply is not None and reply.on_resume is not None and not reply.paused:
            reply.on_resume()

    def _forget_all(self) -> None:
        self._frames.clear()
        for exchange in list(self._exchanges.values()):
            self._forget(exchange)

    def _forget(self, exchange: Exchange) -> None:
        self._server.unsent.release(exchange)
        self._exchanges.pop(exchange.stream, None)
        if exchange.reply is None and exchange in self._queue:
            self._queue.remove(exchange)
        if exchange.pausing is not None:
            exchange.pausing.cancel()
        taker = self.release(exchange)
        if taker is not None:
            say_gone(taker)

    def _end_with_these(self) -> None:
        """Serves no more than the requests that have begun."""
        if self._open and self._last == ANY_STREAM and not self._closing:
            self.parting = True
            self._last = self._highest
            self._framing.say_goaway(self._last, ErrorCode.NO_ERROR)
            self._flush()
            for exchange in self._exchanges.values():
                if exchange.received:  # from now on nothing renews its time
                    exchange.since = self._server.now

    def _flush(self) -> None:
        if self._open and not self._closing and self._framing.queued:
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
        if self.transport.can_write_eof():
            self.transport.write_eof()
        else:
            self.transport.close()
