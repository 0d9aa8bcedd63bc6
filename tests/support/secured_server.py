"""The verbs' server over mutual TLS, with handlers that a test can hold and certificates that it can change."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from http import HTTPStatus
from pathlib import Path
from types import SimpleNamespace

import pytest

from authorities import CLIENT, SERVER, Authority, Leaf, put
from hetserve_shell.http.handlers import PathRouter, Reply, Routes
from hetserve_shell.http.limits import HttpError, ServerLimits
from hetserve_shell.http.server import HttpServer, listen
from hetserve_shell.tls import transport
from hetserve_shell.tls.rotation import Rotation, TlsFiles
from http2_clients import Http2Client
from http_clients import Client, post, until


@cache
def server(authority: Authority, number: int = 0) -> Leaf:
    """The number-th certificate of our server."""
    return authority.server(days=7 + number)


@cache
def client(authority: Authority, name: str = CLIENT, *offers: str) -> ssl.SSLContext:
    """What a client connects with. offers: versions of HTTP, the best first."""
    context = authority.leaf(name).client(authority.certificate)
    if offers:
        context.set_alpn_protocols(list(offers))
    return context


@dataclass
class Secured:
    """A server with an echo, one that waits and one that answers with much."""

    server: HttpServer
    rotation: Rotation
    folder: Path
    authority: Authority
    port: int = 0
    why: list[str] = field(default_factory=list)
    begun: list[bytes] = field(default_factory=list)
    seen: list[bytes] = field(default_factory=list)
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    clients: list[Client | Http2Client] = field(default_factory=list)

    async def connect(self, context: ssl.SSLContext | None = None) -> Client:
        using = context or self.context()
        streams = await asyncio.open_connection("127.0.0.1", self.port, ssl=using, server_hostname=SERVER)
        self.clients.append(made := Client(*streams))
        return made

    async def connect_by_streams(self, context: ssl.SSLContext | None = None) -> Http2Client:
        """A client of HTTP/2."""
        using = context or client(self.authority, CLIENT, "h2", "http/1.1")
        streams = await asyncio.open_connection("127.0.0.1", self.port, ssl=using, server_hostname=SERVER)
        assert streams[1].get_extra_info("ssl_object").selected_alpn_protocol() == "h2"
        self.clients.append(made := Http2Client(*streams))
        await made.begin()
        return made

    def wait_only(self, waiting: float) -> None:
        """Waits for a request so long; no connection ends for another time that it takes."""
        self.server.limits = replace(self.server.limits, waiting=waiting)

    def context(self, name: str = CLIENT) -> ssl.SSLContext:
        return client(self.authority, name)

    async def refused(self, context: ssl.SSLContext) -> str:
        """Why a client of this context is refused, as the server says; it is not answered."""
        before, seen = len(self.why), len(self.seen)
        with pytest.raises((ssl.SSLError, ConnectionError, asyncio.IncompleteReadError)):
            await self._call(context)
        await until(lambda: len(self.why) > before)
        assert len(self.seen) == seen, "nothing that it sent was handled"
        return self.why[-1]

    async def _call(self, context: ssl.SSLContext) -> None:
        client = await self.connect(context)
        await client.send(post("/echo", b"in"))
        await client.answer()


def held_timers(monkeypatch: pytest.MonkeyPatch) -> list[tuple[float, Callable[[], None]]]:
    """What connections let in from now on do when their time is over: (seconds, call), which a test makes itself."""
    held, loop = list[tuple[float, Callable[[], None]]](), asyncio.get_running_loop()

    def call_later(seconds: float, call: Callable[[], None]) -> asyncio.TimerHandle:
        held.append((seconds, call))
        return loop.call_later(3600.0, call)

    timers = SimpleNamespace(call_later=call_later)
    monkeypatch.setattr(transport, "asyncio", SimpleNamespace(get_running_loop=lambda: timers))
    return held


def _routes(made: Secured) -> Routes:
    def echo(body: bytes) -> bytes:
        made.seen.append(body)
        if body == b"bad":
            raise HttpError(HTTPStatus.BAD_REQUEST, "bad")
        return b'"' + body + b'"'

    async def wait(body: bytes) -> bytes:
        made.begun.append(body)
        await made.gate.wait()
        return echo(body)

    def fail(body: bytes) -> bytes:
        raise RuntimeError(body.decode())

    return {
        b"/echo": echo,
        b"/wait": wait,
        b"/much": lambda _body: bytes(8_000_000),
        b"/some": lambda _body: bytes(200_000),
        b"/fail": fail,
        b"/text": lambda _body: Reply((b"a", b"b"), status=HTTPStatus.ACCEPTED),
        b"/empty": lambda _body: b"",
    }


@asynccontextmanager
async def secured_server(
    folder: Path, authority: Authority, monkeypatch: pytest.MonkeyPatch, limits: ServerLimits
) -> AsyncIterator[Secured]:
    """Serves during the block; afterwards nothing of any request is held."""
    monkeypatch.setattr("hetserve_shell.http.server.TICK", 0.02)
    monkeypatch.setattr(transport, "PARTING", 0.2)
    put(folder, server(authority), authority)
    rotation = Rotation(TlsFiles(*(folder / name for name in ("tls.crt", "tls.key", "ca.crt"))))
    made = Secured(HttpServer(PathRouter({}), limits), rotation, folder, authority)
    made.server.router = PathRouter(_routes(made))
    monkeypatch.setattr(transport.log, "warning", lambda _text, _peer, why: made.why.append(why))
    rotation.on_trust = made.server.part
    listener = listen("127.0.0.1", 0)
    made.port = listener.getsockname()[1]
    await made.server.start(listener, transport.over(rotation))
    yield made
    made.gate.set()
    for client in made.clients:
        client.writer.transport.abort()
    await made.server.stop(1.0)
    await until(lambda: not made.server.open)
    assert (made.server.budget.used, made.server.unsent.used) == (0, 0)
