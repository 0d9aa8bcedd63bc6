"""Our server with the two answers of `benchmarks.http.asgi`; forwards go by our client."""

from __future__ import annotations

import argparse
import asyncio
import signal
import socket

import uvloop

from hetserve_shell.http.client import HttpClient
from hetserve_shell.http.handlers import PathRouter
from hetserve_shell.http.server import HttpServer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("port", type=int)
    parser.add_argument("--upstream", default="http://127.0.0.1:1")
    given = parser.parse_args()
    uvloop.run(_serve(given.port, given.upstream))


async def _serve(port: int, upstream: str) -> None:
    client = HttpClient(upstream, None, 64)

    async def forward(body: bytes) -> bytes:
        return (await client.request("POST", "/echo", headers={}, body=body, timeout=10.0))[1]

    server = HttpServer(PathRouter({b"/echo": lambda body: b'{"length": %d}' % len(body), b"/forward": forward}))
    await server.start(socket.create_server(("127.0.0.1", port), backlog=128))
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    await stop.wait()
    await server.stop(1.0)


if __name__ == "__main__":
    main()
