"""Requests to one server over kept connections, one at a time on each, by calls and without a task.

Who asked learns whether a request that failed can have been carried out.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from typing import Any, Final, Generic, Protocol, TypeVar, cast

import httptools

from hetserve.base.failures import Failure
from hetserve_shell.http.limits import write_joined
from hetserve_shell.http.takers import Headers

log = logging.getLogger(__name__)

KEPT_FOR: Final = 4.0
"""Seconds without use after which no connection is used again: servers close theirs after 5."""
CONNECT_WITHIN: Final = 5.0
SURROUND: Final = 64 * 1024
"""Bytes of a head, or of what surrounds a chunk."""
RequestHead = TypeVar("RequestHead")


class AnswerListener(Protocol):
    """Hears the answer to one request; the last that it hears is `on_end` or `on_failed`."""

    def on_head(self, status: int, headers: Headers) -> None:
        """headers: names in lower case."""

    def on_piece(self, piece: bytes) -> None: ...

    def on_end(self, trailers: Headers = ()) -> None:
        """trailers: of HTTP/1.1 there are none."""

    def on_failed(self, failure: Failure, reason: str) -> None: ...


class Call:
    """A request on its way, until its answer has ended."""

    __slots__ = ("_connection",)

    def __init__(self, connection: CallConnection[Any]) -> None:
        self._connection = connection

    def cancel(self) -> None:
        """Ends it, with its connection; its listener hears no more."""
        if self._connection.call is self:
            self._connection.forget()
            self._connection.abort()

    def pause(self) -> None:
        """Reads no more of the answer for now."""
        if self._connection.call is self and self._connection.transport is not None:
            self._connection.transport.pause_reading()

    def resume(self) -> None:
        if self._connection.call is self and self._connection.transport is not None:
            self._connection.transport.resume_reading()


class KeptConnections:
    """Connections to one server that wait for their next request."""

    def __init__(self) -> None:
        self._idle = deque[CallConnection[Any]]()
        """The one used last comes last."""
        self._is_closed = False

    def keep(self, connection: CallConnection[Any]) -> None:
        if self._is_closed:
            connection.abort()
            return
        connection.used = asyncio.get_running_loop().time()
        self._idle.append(connection)

    def forget(self, connection: CallConnection[Any]) -> None:
        if connection in self._idle:
            self._idle.remove(connection)

    def take(self, within: float) -> CallConnection[Any] | None:
        """The connection used last; drops those that were not used `within` seconds."""
        oldest = asyncio.get_running_loop().time() - within
        while self._idle and self._idle[0].used < oldest:
            self._idle.popleft().abort()
        return self._idle.pop() if self._idle else None

    def close(self) -> None:
        """Keeps none from now on."""
        self._is_closed = True
        while self._idle:
            self._idle.pop().abort()


class Upstream(Generic[RequestHead]):
    """Requests to one address. connects: makes a connection. connect_within: [s]."""

    def __init__(
        self,
        host: str,
        port: int,
        *,
        connects: Callable[[KeptConnections], CallConnection[RequestHead]],
        connect_within: float = CONNECT_WITHIN,
    ) -> None:
        self._address = host, port
        self._connects, self._connect_within = connects, connect_within
        self._kept = KeptConnections()
        self._connecting = set[asyncio.Task[None]]()

    def send(self, head: RequestHead, body: bytes | bytearray, listener: AnswerListener) -> Call:
        """Sends a request. head: all of it, with the length of `body`. `listener` hears nothing before this returns."""
        connection = self._kept.take(KEPT_FOR)
        if connection is None:
            connection = self._connects(self._kept)
            task = asyncio.get_running_loop().create_task(self._connect(connection))
            self._connecting.add(task)
            task.add_done_callback(self._connecting.discard)
        return connection.ask(head, body, listener)

    def close(self) -> None:
        """Closes the connections on which nothing is asked, the others after their answer, and makes none."""
        self._kept.close()
        for task in self._connecting:
            task.cancel()

    async def _connect(self, connection: CallConnection[RequestHead]) -> None:
        try:
            async with asyncio.timeout(self._connect_within):
                await asyncio.get_running_loop().create_connection(lambda: connection, *self._address)
        except OSError as error:
            connection.fail(str(error) or f"nobody answers within {self._connect_within:g} s")
        except asyncio.CancelledError:
            connection.fail("the instance is left")
            raise


class CallConnection(asyncio.Protocol, ABC, Generic[RequestHead]):
    """One connection, with one request at a time.

    call: what is asked. used: when its last answer ended [s]; 0: it has answered nothing yet.
    """

    transport: asyncio.Transport | None = None
    used = 0.0

    def __init__(self, kept: KeptConnections) -> None:
        self._kept = kept
        self.call: Call | None = None
        self._listener: AnswerListener | None = None
        self._waiting: tuple[RequestHead, bytes | bytearray] | None = None
        """A request that waits for the connection."""
        self._heard = False
        """Whether a byte of the answer has come."""

    def ask(self, head: RequestHead, body: bytes | bytearray, listener: AnswerListener) -> Call:
        """Sends a request, now or once there is a connection."""
        self.call = call = Call(self)
        self._listener, self._heard = listener, False
        if self.transport is None:
            self._waiting = head, body
        else:
            self._write(self.transport, head, body)
        return call

    def fail(self, reason: str, *, is_refused: bool = False) -> None:
        """Nothing more comes of what is asked. is_refused: the server has said that it has not begun with it."""
        if listener := self.forget():
            is_early = is_refused or (self.used and not self._heard)
            early = Failure.CLOSED_UNANSWERED if is_early else Failure.LOST
            listener.on_failed(early if self._waiting is None else Failure.NOT_SENT, reason)

    def forget(self) -> AnswerListener | None:
        """Nobody asks any more; returns who did."""
        listener, self.call, self._listener = self._listener, None, None
        return listener

    def abort(self) -> None:
        if self.transport is not None:
            self.transport.abort()

    # Called by the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        waiting, self._waiting = self._waiting, None
        if self.call is None and waiting is not None:  # cancelled
            self.abort()
        elif waiting is not None:
            self._write(self.transport, *waiting)

    def connection_lost(self, exc: Exception | None) -> None:
        self._kept.forget(self)
        self.fail(str(exc or "the server closed the connection"))

    # Inside

    @abstractmethod
    def _write(self, transport: asyncio.Transport, head: RequestHead, body: bytes | bytearray) -> None:
        """Sends a request."""

    def _end(self, trailers: Headers = (), *, stays: bool) -> None:
        """An answer is whole. stays: whether its connection can be used again."""
        transport, listener = self.transport, self.forget()
        if transport is None or not stays or transport.is_closing() or transport.get_write_buffer_size():
            self.abort()
        else:
            transport.resume_reading()
            self._kept.keep(self)
        if listener is not None:
            listener.on_end(trailers)


class ClientConnection(CallConnection[bytes]):
    """HTTP/1.1. An answer whose head is that of the one before, byte for byte, is not parsed again."""

    _text, _total = b"", 0
    """The head of an answer that came whole and left the connection; its bytes with its body."""
    _says: tuple[int, Headers] = 0, ()
    """Status and headers of that."""

    def __init__(self, kept: KeptConnections) -> None:
        super().__init__(kept)
        self._parser = httptools.HttpResponseParser(self)
        self._head_only = False
        self._headers: list[tuple[bytes, bytes]] = []
        self._in_head = False
        self._until_end = False
        """Whether the answer ends with the connection."""
        self._done = self._stays = False
        """Whether the answer is whole, and whether its connection can be used again."""
        self._unseen = 0
        """Bytes of a head, or of what surrounds a chunk, so far."""

    # Called by the event loop

    def data_received(self, data: bytes) -> None:
        if self.call is None:  # nobody has asked
            self.abort()
            return
        begins, self._heard = not (self._heard or self._head_only), True
        if begins and len(data) == self._total and data.startswith(self._text):
            self._knows(data[len(self._text) :])
            return
        self._unseen += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._give_up("the answer changes the protocol")
        except httptools.HttpParserError as error:
            if isinstance(error, httptools.HttpParserCallbackError):
                log.exception("hearing an answer failed", exc_info=error.__context__)
            self._give_up(f"the answer is not HTTP/1.1: {error}")
        if self._done:
            if begins:
                self._remember(data)
            self._finish()
        elif self._unseen > SURROUND:
            self._give_up(f"the head of the answer, or what surrounds a chunk, is larger than {SURROUND} bytes")

    def eof_received(self) -> None:
        if self._until_end:
            self._stays = False
            self._finish()

    # Called by the parser

    def on_message_begin(self) -> None:
        self._stays = False  # of an answer that is over: nobody has asked for more
        self._headers = []
        self._in_head = True

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._in_head:  # else a trailer
            self._headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._unseen = 0
        status = self._parser.get_status_code()
        if status < 200 or self._listener is None or self._done:  # interim, or nobody listens
            return
        stays = self._parser.should_keep_alive()
        if self._head_only:
            self._done, self._stays = True, stays
        elif not stays:
            self._until_end = not any(map(_says_length, self._headers))
        self._listener.on_head(status, self._headers)

    def on_body(self, piece: bytes) -> None:
        self._unseen = 0
        if self._done:
            self._stays = False
        elif self._listener is not None:
            self._listener.on_piece(piece)

    def on_message_complete(self) -> None:
        if not self._done and self._parser.get_status_code() >= 200:
            self._done, self._stays = True, self._parser.should_keep_alive()

    # Inside

    def _write(self, transport: asyncio.Transport, head: bytes, body: bytes | bytearray) -> None:
        self._head_only = head.startswith(b"HEAD ")
        self._until_end, self._unseen = False, 0
        write_joined(transport, head, body)

    def _remember(self, data: bytes) -> None:
        """Notes the head of an answer that was whole in these data, if its length ends it and the connection stays."""
        end = data.find(b"\r\n\r\n") + 4
        lengths = [value for name, value in self._headers if name == b"content-length"]
        self._text, self._total = b"", 0
        if self._stays and lengths == [b"%d" % (len(data) - end)]:
            self._text, self._total = data[:end], len(data)
            self._says = self._parser.get_status_code(), self._headers

    def _knows(self, body: bytes) -> None:
        """Takes an answer whose head is known."""
        try:
            if self._listener is not None:
                self._listener.on_head(*self._says)
            if self._listener is not None and body:
                self._listener.on_piece(body)
        except Exception as error:
            log.exception("hearing an answer failed")
            self._give_up(f"the answer is not taken: {error}")
            return
        self._end(stays=True)

    def _finish(self) -> None:
        self._done = self._until_end = False
        if self._head_only:
            self._parser = httptools.HttpResponseParser(self)
        self._end(stays=self._stays)

    def _give_up(self, reason: str) -> None:
        if not self._done:
            self.fail(reason)
        self.abort()


def _says_length(header: tuple[bytes, bytes]) -> bool:
    name, value = header
    return name == b"content-length" or (name == b"transfer-encoding" and value.lower().endswith(b"chunked"))
