"""An extender that decides nothing, in the same process technology as ours: what any extender costs at least."""

from __future__ import annotations

import argparse
import asyncio
import itertools
import signal
import socket

import orjson
import uvloop

from hetserve_extender import wire
from hetserve_extender.http_limits import Routes
from hetserve_extender.http_server import HttpServer


def routes(shape: str) -> Routes:
    """Verbs of a no-op. shape: `one` node back, taken in turn, or `all` of them, all with one score."""
    turn = itertools.count()

    def filter_(body: bytes) -> bytes:
        names = orjson.loads(body)["NodeNames"]
        passed = names if shape == "all" else [names[next(turn) % len(names)]]
        return wire.filter_result(wire.FilterArgs({}, tuple(names)), passed, {}, {})

    def prioritize(body: bytes) -> bytes:
        return wire.priorities(dict.fromkeys(orjson.loads(body)["NodeNames"], 5))

    return {b"/filter": filter_, b"/prioritize": prioritize}


async def serve(port: int, shape: str) -> None:
    """Until SIGTERM."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    server = HttpServer(routes(shape))
    await server.start(socket.create_server(("127.0.0.1", port)))
    await stop.wait()
    await server.stop(1.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--shape", choices=("one", "all"), required=True)
    options = parser.parse_args()
    uvloop.run(serve(options.port, options.shape))


if __name__ == "__main__":
    main()
