"""Short requests to one server over kept connections (decision 0032)."""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections import deque
from collections.abc import Callable
from typing import Final, cast
from urllib.parse import SplitResult, unquote, urlsplit

import httptools

CONNECT_WITHIN: Final = 10.0
LARGEST_ANSWER: Final = 64 << 20  # bytes
KEPT_FOR: Final = 30.0
"""Seconds without use before a connection is dropped."""
_LONGEST_HEAD: Final = 16 * 1024
"""Bytes of a proxy's answer."""


class ConnectionEndedError(OSError):
    """The connection ended before a whole answer."""


class AnswerTooLargeError(OSError):
    """The answer has more bytes than are read."""

    def __init__(self, largest: int) -> None:
        super().__init__(f"the answer has more than {largest:,} bytes")


class NotSentError(Exception):
    """The caller withdrew the request."""


class _Exchange(asyncio.Protocol):
    """One connection, with one request at a time."""

    _transport: asyncio.Transport

    def __init__(self, pool: HttpClient) -> None:
        self._pool = pool
        self._room = pool.largest
        self._parser = httptools.HttpResponseParser(self)
        self._answer: asyncio.Future[tuple[int, bytes]] | None = None
        self._parts: list[bytes] = []
        self.open = False
        self.used = 0.0

    def send(self, data: bytes) -> asyncio.Future[tuple[int, bytes]]:
        self._parser = httptools.HttpResponseParser(self)
        self._parts.clear()
        self._room = self._pool.largest
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(data)
        return self._answer

    def abort(self) -> None:
        self.open = False
        self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self.open = True

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._fail(ConnectionEndedError(f"the answer is not HTTP/1.1: {error}"))
            self.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self.open = False
        self._pool.forget(self)
        self._fail(ConnectionEndedError(str(exc or "the server closed the connection")))

    def on_body(self, part: bytes) -> None:
        self._room -= len(part)
        if self._room >= 0:
            self._parts.append(part)
            return
        self._parts.clear()
        self._fail(AnswerTooLargeError(self._pool.largest))
        self.abort()

    def on_message_complete(self) -> None:
        status = self._parser.get_status_code()
        if status < 200:  # interim
            self._parts.clear()
            return
        answer, self._answer = self._answer, None
        if not self._parser.should_keep_alive():
            self.open = False
            self._transport.close()
        if answer is not None and not answer.done():
            answer.set_result((status, b"".join(self._parts)))

    def _fail(self, error: Exception) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error)
        self._answer = None


class _Tunnel(asyncio.Protocol):
    """A proxy's answer to CONNECT (RFC 9110, section 9.3.6)."""

    def __init__(self) -> None:
        self.opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._head = b""

    def data_received(self, data: bytes) -> None:
        self._head += data
        if self.opened.done() or (b"\r\n\r\n" not in self._head and len(self._head) < _LONGEST_HEAD):
            return
        line = self._head.partition(b"\r\n")[0]
        status = line.split(b" ")[1:2]
        if status and status[0].startswith(b"2"):
            self.opened.set_result(None)
        else:
            self.opened.set_exception(ConnectionError(f"the proxy refused: {line[:100].decode(errors='replace')}"))

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.opened.done():
            self.opened.set_exception(ConnectionError(str(exc or "the proxy closed the connection")))


class HttpClient:
    """Requests to `base` (scheme, host and port), at most `connections` at once.

    largest: bytes of an answer. server_name: in the certificate; None: the host of `base`. proxy: URL (http) of a
    tunnelling proxy, with user and password.
    """

    def __init__(
        self,
        base: str,
        tls: ssl.SSLContext | None,
        connections: int,
        *,
        largest: int = LARGEST_ANSWER,
        server_name: str | None = None,
        proxy: str | None = None,
    ) -> None:
        self.largest = largest
        parts = urlsplit(base)
        secure = parts.scheme == "https"
        self._host = parts.hostname or "localhost"
        self._port = parts.port or (443 if secure else 80)
        self._tls = tls if secure else None
        self._server_name = (server_name or self._host) if self._tls else None
        self._proxy = urlsplit(proxy) if proxy else None
        self._authority = parts.netloc
        self._prefix = parts.path.rstrip("/")
        self._idle: deque[_Exchange] = deque()
        self._slots = asyncio.Semaphore(connections)

    async def request(
        self,
        method: str,
        target: str,
        *,
        headers: dict[str, str],
        body: bytes = b"",
        timeout: float,  # noqa: ASYNC109  (a timer that ends the connection; no scope of its own per request)
        unless: Callable[[], str] | None = None,
    ) -> tuple[int, bytes]:
        """Status and body. timeout: seconds from the call, waiting included.

        unless: called right before sending; a text withdraws the request. Raises OSError without a whole answer,
        AnswerTooLargeError, TimeoutError without one in time, NotSentError with the text of `unless`.
        """
        lines = [
            f"{method} {self._prefix}{target} HTTP/1.1",
            f"Host: {self._authority}",
            f"Content-Length: {len(body)}",
        ]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        data = "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        await self._turn(timeout)
        try:
            connection = self._kept() or await self._connect(deadline - loop.time())
            if unless is not None and (message := unless()):
                self._keep(connection)
                raise NotSentError(message)
            return await self._exchange(connection, data, deadline, timeout)
        finally:
            self._slots.release()

    async def _turn(self, limit: float) -> None:
        """Waits for a connection. Raises TimeoutError after `limit` seconds."""
        if not self._slots.locked():
            await self._slots.acquire()
            return
        try:
            async with asyncio.timeout(limit):
                await self._slots.acquire()
        except TimeoutError:
            raise TimeoutError(f"no connection was free within {limit:g} s") from None

    async def _exchange(self, connection: _Exchange, data: bytes, deadline: float, limit: float) -> tuple[int, bytes]:
        answer = connection.send(data)
        timer = asyncio.get_running_loop().call_at(deadline, _give_up, answer, limit)
        try:
            return await answer
        except BaseException:
            connection.abort()  # it may still bring this answer
            raise
        finally:
            timer.cancel()
            self._keep(connection)

    def close(self) -> None:
        while self._idle:
            self._idle.pop().abort()

    def forget(self, connection: _Exchange) -> None:
        if connection in self._idle:
            self._idle.remove(connection)

    def _keep(self, connection: _Exchange) -> None:
        if connection.open:
            connection.used = asyncio.get_running_loop().time()
            self._idle.append(connection)

    def _kept(self) -> _Exchange | None:
        """The connection used last; drops those idle for too long."""
        oldest = asyncio.get_running_loop().time() - KEPT_FOR
        while self._idle and self._idle[0].used < oldest:
            self._idle.popleft().abort()
        return self._idle.pop() if self._idle else None

    async def _connect(self, limit: float) -> _Exchange:
        try:
            async with asyncio.timeout(min(limit, CONNECT_WITHIN)):
                return await (self._connect_directly() if self._proxy is None else self._connect_through(self._proxy))
        except OSError as error:
            message = str(error) or "nobody answers"
            raise ConnectionError(f"Cannot connect to {self._authority}: {message}") from error

    async def _connect_directly(self) -> _Exchange:
        _, connection = await asyncio.get_running_loop().create_connection(
            lambda: _Exchange(self), self._host, self._port, ssl=self._tls, server_hostname=self._server_name
        )
        return connection

    async def _connect_through(self, proxy: SplitResult) -> _Exchange:
        loop = asyncio.get_running_loop()
        transport, tunnel = await loop.create_connection(_Tunnel, proxy.hostname or "", proxy.port or 80)
        try:
            transport.write(_connect_request(_authority(self._host, self._port), proxy))
            await tunnel.opened
            return await self._over(transport)
        except BaseException:
            transport.abort()
            raise

    async def _over(self, tunnel: asyncio.Transport) -> _Exchange:
        connection = _Exchange(self)
        tunnel.set_protocol(connection)
        if self._tls is None:
            connection.connection_made(tunnel)
            return connection
        secured = await asyncio.get_running_loop().start_tls(
            tunnel, connection, self._tls, server_hostname=self._server_name
        )
        if secured is None:
            raise ConnectionError("the server closed the connection")
        connection.connection_made(secured)
        return connection


def _authority(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _connect_request(target: str, proxy: SplitResult) -> bytes:
    lines = [f"CONNECT {target} HTTP/1.1", f"Host: {target}"]
    if proxy.username:
        user = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
        lines.append(f"Proxy-Authorization: Basic {base64.b64encode(user.encode()).decode()}")
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n"


def _give_up(answer: asyncio.Future[tuple[int, bytes]], seconds: float) -> None:
    if not answer.done():
        answer.set_exception(TimeoutError(f"no answer within {seconds:g} s"))
