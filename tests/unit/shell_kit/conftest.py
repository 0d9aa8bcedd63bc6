"""On which event loops the tests of the kit run, and a bare server."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Mapping
from http import HTTPStatus

import pytest
import pytest_asyncio
import uvloop

from hetserve_shell.http.handlers import PathRouter
from hetserve_shell.http.limits import HttpError
from hetserve_shell.http.server import HttpServer
from http_clients import LIMITS, Served, until


def pytest_asyncio_loop_factories(item: pytest.Item) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Sockets on both, HTTP/2 and TLS on uvloop alone.

    The operator runs on asyncio's, the extender on uvloop, whose transports differ.
    """
    both = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
    if item.path.name.startswith(("test_http_stream", "test_http_tls")):
        return {"uvloop": uvloop.new_event_loop}
    sockets = item.path.name.startswith(("test_probes", "test_http_")) and item.path.name != "test_http_proxy.py"
    return both if sockets else {"asyncio": asyncio.new_event_loop}


@pytest_asyncio.fixture
async def served(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Served]:
    monkeypatch.setattr("hetserve_shell.http.server.TICK", 0.02)
    made: Served

    def echo(body: bytes) -> bytes:
        made.seen.append(body)
        return b'"' + body + b'"'

    async def wait(body: bytes) -> bytes:
        made.waiting.set()
        await made.gate.wait()
        return echo(body)

    def fail(body: bytes) -> bytes:
        raise RuntimeError("broken") if body else HttpError(HTTPStatus.BAD_REQUEST, "empty")

    def much(body: bytes) -> bytes:
        return bytes(8_000_000)

    server = HttpServer(PathRouter({b"/echo": echo, b"/wait": wait, b"/fail": fail, b"/much": much}), LIMITS)
    listener = socket.create_server(("127.0.0.1", 0))
    made = Served(server, listener.getsockname()[1])
    await server.start(listener)
    yield made
    made.gate.set()
    for client in made.clients:
        client.writer.transport.abort()
    await server.stop(1.0)
    await until(lambda: not server.open)
    assert server.budget.used == 0, "bytes of requests that are gone still count"
