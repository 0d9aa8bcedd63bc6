"""An HTTP proxy that answers CONNECT and tunnels every target to one address."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field


@dataclass
class ConnectProxy:
    """Requests that the proxy has seen, and how it answers the next ones."""

    to: tuple[str, int]
    answer: bytes = b"HTTP/1.1 200 Connection established\r\nVia: test\r\n\r\n"
    url: str = ""
    heads: list[str] = field(default_factory=list)
    """Request line and headers of each CONNECT."""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            self.heads.append(head.decode())
            writer.write(self.answer)
            await writer.drain()
            if b" 200 " in self.answer:
                await self._tunnel(reader, writer)
        finally:
            await _end(writer)

    async def _tunnel(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inner_reader, inner_writer = await asyncio.open_connection(*self.to)
        try:
            await asyncio.gather(_copy(reader, inner_writer), _copy(inner_reader, writer))
        finally:
            await _end(inner_writer)


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()


async def _end(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with suppress(ConnectionError):
        await writer.wait_closed()


@asynccontextmanager
async def connect_proxy(host: str, port: int) -> AsyncIterator[ConnectProxy]:
    """A proxy on loopback that tunnels to host and port."""
    proxy = ConnectProxy((host, port))
    tasks: set[asyncio.Task[None]] = set()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.add(asyncio.get_running_loop().create_task(proxy.serve(reader, writer)))

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    proxy.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield proxy
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
