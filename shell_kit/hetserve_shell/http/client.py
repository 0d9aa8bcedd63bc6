"""Short requests to one server over kept connections (decision 0032)."""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import Callable
from typing import Final
from urllib.parse import SplitResult, unquote, urlsplit

from hetserve.base.failures import Failure
from hetserve_shell.http.calls import ClientConnection, KeptConnections
from hetserve_shell.http.takers import Headers

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


class _WholeAnswer:
    """Listens to one answer, of at most `room` bytes."""

    def __init__(self, room: int) -> None:
        self.answer: asyncio.Future[tuple[int, bytes]] = asyncio.get_running_loop().create_future()
        self._largest = self._room = room
        self._status = 0
        self._parts: list[bytes] = []

    def on_head(self, status: int, _headers: Headers) -> None:
        self._status = status

    def on_piece(self, piece: bytes) -> None:
        self._room -= len(piece)
        if self._room >= 0:
            self._parts.append(piece)
        else:
            self.fail(AnswerTooLargeError(self._largest))

    def on_end(self, _trailers: Headers = ()) -> None:
        if not self.answer.done():
            self.answer.set_result((self._status, b"".join(self._parts)))

    def on_failed(self, _failure: Failure, reason: str) -> None:
        self.fail(ConnectionEndedError(reason))

    def fail(self, error: Exception) -> None:
        if not self.answer.done():
            self.answer.set_exception(error)


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
        self._kept = KeptConnections()
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
        head = "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n"
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        await self._turn(timeout)
        try:
            connection = self._kept.take(KEPT_FOR) or await self._connect(deadline - loop.time())
            if unless is not None and (message := unless()):
                self._kept.keep(connection)
                raise NotSentError(message)
            listener = _WholeAnswer(self.largest)
            call = connection.ask(head, body, listener)
            timer = loop.call_at(deadline, listener.fail, TimeoutError(f"no answer within {timeout:g} s"))
            try:
                return await listener.answer
            finally:
                timer.cancel()
                call.cancel()  # it may still bring this answer
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

    def close(self) -> None:
        self._kept.close()

    async def _connect(self, limit: float) -> ClientConnection:
        try:
            async with asyncio.timeout(min(limit, CONNECT_WITHIN)):
                return await (self._connect_directly() if self._proxy is None else self._connect_through(self._proxy))
        except OSError as error:
            message = str(error) or "nobody answers"
            raise ConnectionError(f"Cannot connect to {self._authority}: {message}") from error

    async def _connect_directly(self) -> ClientConnection:
        made = ClientConnection(self._kept)
        await asyncio.get_running_loop().create_connection(
            lambda: made, self._host, self._port, ssl=self._tls, server_hostname=self._server_name
        )
        return made

    async def _connect_through(self, proxy: SplitResult) -> ClientConnection:
        loop = asyncio.get_running_loop()
        transport, tunnel = await loop.create_connection(_Tunnel, proxy.hostname or "", proxy.port or 80)
        try:
            transport.write(_connect_request(_authority(self._host, self._port), proxy))
            await tunnel.opened
            return await self._over(transport)
        except BaseException:
            transport.abort()
            raise

    async def _over(self, tunnel: asyncio.Transport) -> ClientConnection:
        connection = ClientConnection(self._kept)
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
