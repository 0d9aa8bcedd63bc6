"""Clients that mean harm against a process of its own: its memory stays bounded, the scheduler is still served."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from hetserve.testing.cluster import gpu_pod

pytestmark = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads memory as Linux tells it")

SERVER = """
import asyncio, socket, sys, time, uvloop
from hetserve.placement.placer import Placer
from hetserve.placement.sinks import NodeSink
from hetserve.testing.cluster import gpu_node
from hetserve_extender.app import Verbs
from hetserve_extender.bind import Binder
from hetserve_extender.http_server import HttpServer
from hetserve_extender.metrics import Metrics
from hetserve_extender.testing import FakeApi

async def main():
    placer = Placer(clock=time.monotonic, hold=30.0)
    NodeSink(placer).replace([gpu_node("n0")])
    server = HttpServer(Verbs(placer, Binder(FakeApi(), placer), Metrics(placer), lambda: "").routes())
    listener = socket.create_server(("127.0.0.1", 0))
    await server.start(listener)
    print(listener.getsockname()[1], flush=True)
    await asyncio.Event().wait()

uvloop.run(main())
"""
MIB = 1 << 20
GROWTH = 160
"""MiB: the limit on bodies not yet served (64) twice, as a body is joined from its parts, and the allocator's rest."""


class Victim:
    """The process under attack."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        self.process = process
        self.port = int(process.stdout.readline())
        self.serve()
        self.before = self.memory()

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=20.0)

    def memory(self) -> float:
        """Largest resident memory so far [MiB]."""
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) / 1024

    def serve(self) -> float:
        """One filter call as the scheduler makes it; returns its time [s]."""
        body = json.dumps({"Pod": gpu_pod(), "Nodes": None, "NodeNames": ["n0"]}).encode()
        start = time.perf_counter()
        with self.connect() as connection:
            connection.sendall(_head(len(body), "Connection: close") + body)
            answer = b"".join(iter(lambda: connection.recv(65536), b""))
        assert json.loads(answer.partition(b"\r\n\r\n")[2])["NodeNames"] == ["n0"]
        return time.perf_counter() - start


@pytest.fixture
def victim() -> Iterator[Victim]:
    process = subprocess.Popen(
        [sys.executable, "-c", SERVER],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=dict(os.environ),
    )
    try:
        yield Victim(process)
    finally:
        process.kill()
        process.communicate()


def _head(length: int, *more: str) -> bytes:
    lines = ["POST /filter HTTP/1.1", "Host: x", f"Content-Length: {length}", *more]
    return "\r\n".join(lines).encode() + b"\r\n\r\n"


def _flood(victim: Victim, stack: ExitStack, count: int, first: bytes, rest: Callable[[socket.socket], None]) -> None:
    """Open many connections, send the same on each, and keep them open."""
    for _ in range(count):
        connection = stack.enter_context(victim.connect())
        with suppress(OSError):  # refused in the middle: that is the server's right
            connection.sendall(first)
            rest(connection)


def _nothing(_connection: socket.socket) -> None:
    return


ATTACKS: dict[str, tuple[int, bytes, Callable[[socket.socket], None]]] = {
    "large bodies, never finished": (12, _head(31 * MIB), lambda c: c.sendall(bytes(30 * MIB))),
    "bodies announced larger than allowed": (8, _head(1 << 40), lambda c: c.sendall(bytes(8 * MIB))),
    "a header without end": (8, b"POST /filter HTTP/1.1\r\nX: ", lambda c: c.sendall(b"x" * (8 * MIB))),
    "a trailer without end": (
        8,
        b"POST /filter HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\nX: ",
        lambda c: c.sendall(b"x" * (8 * MIB)),
    ),
    "deep JSON": (4, _head(20 * MIB), lambda c: c.sendall(b"[" * (20 * MIB))),
    "connections that say nothing": (1500, b"", _nothing),
    "heads never finished": (1500, b"POST /filter HTTP/1.1\r\n", _nothing),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_memory_stays_bounded_and_the_scheduler_is_served(victim: Victim, attack: str) -> None:
    count, first, rest = ATTACKS[attack]
    with ExitStack() as stack:
        _flood(victim, stack, count, first, rest)
        victim.serve()
        grown = victim.memory() - victim.before
        assert grown < GROWTH, f"{attack}: {grown:.0f} MiB more, which ends the process where memory is limited"
    victim.serve()
    assert victim.process.poll() is None, f"{attack} ends the process"
