"""TLS between a connection's socket and its requests: who shows no certificate that holds is heard no further.

The handshake runs inside the server's own connection, so that its bounds and time limits count strangers too.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, cast

from hetserve_shell.http.http1 import Connection
from hetserve_shell.http.http2 import PROTOCOL, Http2Connection

if TYPE_CHECKING:
    from hetserve_shell.http.server import HttpServer
    from hetserve_shell.tls.rotation import Rotation

log = logging.getLogger(__name__)

RECORD: Final = 16384
"""Bytes of plain text in a record at most."""
PARTING: Final = 2.0
"""Seconds for a refused client to read why."""


def over(rotation: Rotation) -> Callable[[HttpServer], asyncio.Protocol]:
    """How a server hears its clients over TLS."""
    return lambda server: TlsTransport(server, rotation)


class TlsTransport(asyncio.Transport, asyncio.Protocol):
    """Protocol of the socket, and transport of the plain text: of HTTP/2 where the client speaks it, else HTTP/1.1."""

    def __init__(self, server: HttpServer, rotation: Rotation) -> None:
        super().__init__()
        self._server = server
        self._inner: Connection | Http2Connection = Connection(server)
        self._rotation = rotation
        self._received, self._to_send = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = rotation.context.wrap_bio(self._received, self._to_send, server_side=True)
        self._open = False
        """Whether the handshake is done and nothing was closed by us."""
        self._dropped = False
        """Whether what arrives is thrown away."""
        self._ended = False
        self._stays = False
        self._until: asyncio.TimerHandle | None = None

    # Called by the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._socket = cast("asyncio.Transport", transport)
        self._inner.connection_made(self)

    def data_received(self, data: bytes) -> None:
        if self._dropped:
            return
        self._received.write(data)
        try:
            if not self._open and not self._shake_hands():
                return
            plain = self._read()
        except ssl.SSLError as error:
            self._refuse(error)
            return
        if plain:
            self._inner.data_received(plain)
        self._flush()  # what the library itself has to say, such as an update of keys

    def eof_received(self) -> bool:
        if not self._ended and not self._dropped:
            self._ended = True
            self._stays = self._open and bool(self._inner.eof_received())
        return self._stays

    def connection_lost(self, exc: Exception | None) -> None:
        self._open, self._dropped = False, True
        if self._until is not None:
            self._until.cancel()
        self._inner.connection_lost(exc)

    def pause_writing(self) -> None:
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._inner.resume_writing()

    # Called by the connection

    def write(self, data: bytes | bytearray | memoryview) -> None:
        rest = memoryview(data)
        while rest and self._open:
            rest = rest[self._tls.write(rest) :]
        self._flush()

    def write_eof(self) -> None:
        if self._part():
            self._socket.write_eof()

    def can_write_eof(self) -> bool:
        return self._open

    def close(self) -> None:
        if self._part() or self._dropped:
            self._socket.close()
        else:  # in the middle of the handshake
            self._socket.abort()

    def abort(self) -> None:
        self._socket.abort()

    def is_closing(self) -> bool:
        return self._socket.is_closing()

    def pause_reading(self) -> None:
        self._socket.pause_reading()

    def resume_reading(self) -> None:
        self._socket.resume_reading()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._socket.get_extra_info(name, default)

    # Inside

    def _shake_hands(self) -> bool:
        """Whether the client is in. Raises SSLError."""
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            self._flush()
            return False
        self._open = True
        if self._tls.selected_alpn_protocol() == PROTOCOL:
            self._speak_http2()
        if shown := self._tls.getpeercert():
            # When its certificate ends, so does what it was let in for.
            stays = ssl.cert_time_to_seconds(str(shown["notAfter"])) - self._rotation.wall()
            self._until = asyncio.get_running_loop().call_later(stays, self._inner.finish)
        return True

    def _speak_http2(self) -> None:
        before = self._inner
        before.connection_lost(None)
        self._inner = Http2Connection(self._server)
        self._inner.connection_made(self)
        if before.parting:  # it was let in by what held before
            self._inner.finish()

    def _read(self) -> bytes:
        """The plain text that has come whole. Raises SSLError."""
        found = list[bytes]()
        try:
            while data := self._tls.read(RECORD):
                found.append(data)
                if not self._received.pending and not self._tls.pending():
                    return found[0] if len(found) == 1 else b"".join(found)
        except ssl.SSLWantReadError:
            return b"".join(found)
        self._say_end(b"".join(found))
        return b""

    def _say_end(self, last: bytes) -> None:
        """The client has said that it sends no more."""
        if last:
            self._inner.data_received(last)
        if not self.eof_received():
            self.close()

    def _part(self) -> bool:
        """Says that we send no more, once; whether there is anybody to say it to."""
        if not self._open:
            return False
        self._open, self._dropped = False, True
        with suppress(ssl.SSLError):  # it would wait for the client to say the same
            self._tls.unwrap()
        self._flush()
        return True

    def _refuse(self, error: ssl.SSLError) -> None:
        self._flush()  # the alert
        self._dropped = True
        if self._open:
            log.info("%s: %s", self._address(), error)
            self._open = False
            self.abort()
            return
        log.warning("%s is refused: %s", self._address(), _message(error))
        if self._socket.is_closing():
            return
        # Until the client has read the alert: a reset would overtake it.
        self._socket.write_eof()
        self._until = asyncio.get_running_loop().call_later(PARTING, self.abort)

    def _flush(self) -> None:
        if self._to_send.pending and not self._socket.is_closing():
            self._socket.write(self._to_send.read())

    def _address(self) -> str:
        peer = self._socket.get_extra_info("peername")
        return f"{peer[0]}:{peer[1]}" if peer else "a client"


def _message(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate does not hold: {error.verify_message}"
    known = {
        "PEER_DID_NOT_RETURN_A_CERTIFICATE": "it shows no certificate",
        "HTTP_REQUEST": "it speaks plain HTTP",
        "WRONG_VERSION_NUMBER": "it speaks no TLS",
    }
    return known.get(error.reason or "", f"no TLS came about: {error.reason}")
