"""Clients that write HTTP by the byte, and a server of the verbs with handlers that a test can hold."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Final

import httpx

from harness import limits
from hetserve_shell.http.limits import ServerLimits
from hetserve_shell.http.server import HttpServer

LIMITS = ServerLimits(
    head=4096, body=200_000, bodies=300_000, connections=8, waiting=60.0, idle=60.0, unread=60.0, lingering=5.0
)
"""No connection of a test ends for the time that a busy machine takes."""
IDLE = 0.6
_NO_AUTHORITIES: Final = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""To read the usual ones takes longer than most tests that ask something."""


def plain_client(base_url: str = "") -> httpx.AsyncClient:
    """A client of http URLs."""
    return httpx.AsyncClient(base_url=base_url, verify=_NO_AUTHORITIES, trust_env=False, timeout=limits.ANSWER)


def hurry(server: HttpServer) -> None:
    """Lets connections end by the time that they take, for a test that waits for that."""
    server.limits = replace(server.limits, waiting=0.4, idle=IDLE, unread=0.4)


@dataclass
class Served:
    """A server with an echo, a handler that waits, one that fails and one that answers with very much."""

    server: HttpServer
    port: int
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    waiting: asyncio.Event = field(default_factory=asyncio.Event)
    seen: list[bytes] = field(default_factory=list)
    clients: list[Client] = field(default_factory=list)

    async def connect(self) -> Client:
        client = Client(*await asyncio.open_connection("127.0.0.1", self.port))
        self.clients.append(client)
        return client


@dataclass
class Client:
    """One connection of a client."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def answer(self) -> tuple[int, bytes, dict[str, str]]:
        head = (await asyncio.wait_for(self.reader.readuntil(b"\r\n\r\n"), limits.ANSWER)).decode()
        status, *lines = head.strip().split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
        body = await asyncio.wait_for(self.reader.readexactly(int(headers.get("content-length", 0))), limits.ANSWER)
        return int(status.split()[1]), body, headers

    async def refused(self) -> tuple[int, str]:
        """Status and text of a refusal, after which the server has closed its side."""
        status, body, headers = await self.answer()
        assert headers["connection"] == "close"
        assert await asyncio.wait_for(self.reader.read(), limits.ANSWER) == b""
        return status, json.loads(body)["error"]

    async def closed(self) -> bytes:
        """What comes until the server closes."""
        return await asyncio.wait_for(self.reader.read(), limits.ANSWER)


async def said(port: int, parts: Sequence[bytes], *, leave: bool = True) -> bytes:
    """What a server says to parts that are sent one by one, until it closes. leave: says that no more is sent."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    with suppress(ConnectionError):
        for part in parts:
            writer.write(part)
            await writer.drain()
            await asyncio.sleep(0)
        if leave:
            writer.write_eof()
    answer = b""
    with suppress(ConnectionError):
        async with asyncio.timeout(limits.ANSWER):
            answer = await reader.read()
    writer.transport.abort()
    return answer


def post(path: str, body: bytes, *headers: str) -> bytes:
    lines = [f"POST {path} HTTP/1.1", "Host: extender", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def chunked(path: str, *chunks: bytes, end: bytes = b"0\r\n\r\n") -> bytes:
    head = f"POST {path} HTTP/1.1\r\nHost: extender\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    return head + b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks) + end


async def until(holds: Callable[[], bool], within: float = limits.ANSWER) -> None:
    async with asyncio.timeout(within):
        while not holds():  # noqa: ASYNC110  (nothing tells when a socket is gone)
            await asyncio.sleep(0.01)
