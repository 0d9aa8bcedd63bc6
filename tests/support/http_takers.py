"""A server whose requests are taken by a desk that a test looks at and answers from."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus

from harness import limits
from hetserve_shell.http.limits import HttpError, ServerLimits
from hetserve_shell.http.server import HttpServer
from hetserve_shell.http.takers import Head, Replier
from http_clients import Client, until


@dataclass(eq=False)
class Guest:
    """One request at the desk. left: how often it was said that its client is gone."""

    head: Head
    limit: int
    body: bytes | bytearray | None = None
    left: int = 0
    reply: Replier | None = None
    path: bytes = b""

    def take(self, body: bytes | bytearray, reply: Replier) -> None:
        assert self.reply is None, "taken twice"
        assert self.left == 0, "taken though the client is gone"
        self.body, self.reply = body, reply
        if self.path == b"/echo":
            reply.answer(200, [(b"x-kind", type(body).__name__.encode())], bytes(body))
        elif self.path == b"/fail":
            raise RuntimeError("broken")

    def gone(self) -> None:
        self.left += 1


@dataclass
class Desk:
    """Refuses /no, fails at /broken and /fail, answers /echo at once, and leaves the rest to the test."""

    limit: int = 150_000
    guests: list[Guest] = field(default_factory=list)
    pause: float = 0.0
    """Before a refusal [s]."""
    refusals: int = 0

    def asked(self, head: Head) -> Guest:
        if head.path == b"/no":
            raise self.refusal()
        if head.path == b"/broken":
            raise RuntimeError("broken")
        self.guests.append(Guest(head, self.limit, path=head.path))
        return self.guests[-1]

    def refusal(self) -> HttpError:
        error = HttpError(HTTPStatus.TOO_MANY_REQUESTS, "the queue is full", retry_after=3)
        error.pause = self.pause
        self.refusals += 1
        return error


@dataclass
class Reception:
    desk: Desk
    server: HttpServer
    port: int
    clients: list[Client] = field(default_factory=list)

    async def connect(self) -> Client:
        client = Client(*await asyncio.open_connection("127.0.0.1", self.port))
        self.clients.append(client)
        return client

    async def guest(self, number: int = 0) -> tuple[Guest, Replier]:
        """The request of a number, once it is whole."""
        await until(lambda: len(self.desk.guests) > number and self.desk.guests[number].reply is not None)
        guest = self.desk.guests[number]
        assert guest.reply is not None
        return guest, guest.reply


@asynccontextmanager
async def receiving(allowed: ServerLimits) -> AsyncIterator[Reception]:
    """When all clients are gone, nothing of their requests may be held."""
    desk = Desk()
    server = HttpServer(desk, allowed)
    listener = socket.create_server(("127.0.0.1", 0))
    made = Reception(desk, server, listener.getsockname()[1])
    await server.start(listener)
    yield made
    for client in made.clients:
        client.writer.transport.abort()
    await until(lambda: not server.open)
    assert server.budget.used == 0, "bytes of requests that are gone still count"
    for guest in desk.guests:
        assert guest.left <= 1, "one client went twice"
        assert guest.reply is not None or guest.left == 1, "nobody is told that a request never came whole"
    await server.stop(1.0)


async def in_pieces(client: Client) -> tuple[bytes, list[bytes]]:
    """Head and chunks of an answer."""
    head = await asyncio.wait_for(client.reader.readuntil(b"\r\n\r\n"), limits.ANSWER)
    chunks = list[bytes]()
    while size := int(await asyncio.wait_for(client.reader.readline(), limits.ANSWER), 16):
        chunks.append((await asyncio.wait_for(client.reader.readexactly(size + 2), limits.ANSWER))[:-2])
    assert await client.reader.readline() == b"\r\n"
    return head, chunks


def ask(method: str, path: str, *headers: str, body: bytes = b"", length: int | None = None) -> bytes:
    """A request. length: said in place of the body's own."""
    lines = [f"{method} {path} HTTP/1.1", "Host: x", *headers]
    if body or length is not None:
        lines.append(f"Content-Length: {len(body) if length is None else length}")
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body
