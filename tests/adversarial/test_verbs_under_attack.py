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
from typing import Any

import pytest

from effort import spread
from harness import limits
from hetserve.api import names
from testing.cluster import gpu_pod

pytestmark = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads memory as Linux tells it")

SERVER = """
import asyncio, socket, sys, time, orjson, uvloop
from hetserve.placement.placer import Placer
from hetserve.placement.event_handlers import NodeEventHandler
from testing.cluster import gpu_node
from hetserve_extender.verbs.handlers import Verbs
from hetserve_extender.verbs.bind_sender import BindSender
from hetserve_extender.verbs.binding import BindStateMachine
from hetserve_shell.leader.elector import Elector
from hetserve_shell.http.handlers import PathRouter
from hetserve_shell.http.server import HttpServer
from hetserve_shell.leader.lease import Candidate, Terms
from hetserve_extender.observe.metrics import Metrics
from testing.extender import FakeApiServer, Unfenced

longest = 0.0

async def watch_the_loop():  # the most processor time between two turns: what one request keeps from all others
    global longest
    while True:
        start = time.thread_time()
        await asyncio.sleep(0.0005)
        longest = max(longest, time.thread_time() - start)

async def main():
    placer = Placer(clock=time.monotonic, hold=30.0)
    NodeEventHandler(placer).replace([gpu_node("n0")])
    api = FakeApiServer()
    metadata = {"namespace": "hetserve-system", "name": "lease"}
    spec = {"holderIdentity": "", "renewTime": "before"}  # given up in order
    api.add({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec})
    elector = Elector(api, "hetserve-system", "lease", Candidate("me", Terms(3.0, 2.0, 0.5)))
    tasks = [asyncio.create_task(watch_the_loop()), asyncio.create_task(elector.run())]
    await elector.won()
    verbs = Verbs(placer, BindSender(api, BindStateMachine(placer, Unfenced())), Metrics(placer), lambda: "").routes()
    state = lambda body: orjson.dumps({"blocked": longest, "term": elector.term()})
    server = HttpServer(PathRouter({**verbs, b"/state": state}))
    listener = socket.create_server(("127.0.0.1", 0))
    await server.start(listener)
    print(listener.getsockname()[1], flush=True)
    await asyncio.Event().wait()

uvloop.run(main())
"""
MIB = 1 << 20
GROWTH = 160
"""MiB: the limit on bodies not yet served (32) twice, as a body is joined from its parts, one body as parsed, and the
allocator's rest."""
BLOCKED = 0.25
"""Seconds of processor time: an eighth of what deposes a leader, which must renew its Lease within 2 s."""


class Victim:
    """The process under attack."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        self.process = process
        self.port = int(process.stdout.readline())
        self.serve()
        self.before = self.memory()

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=limits.REACTION)

    def memory(self) -> float:
        """Largest resident memory so far [MiB]."""
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) / 1024

    def serve(self) -> float:
        """One filter call as the scheduler makes it; returns its time [s]."""
        body = json.dumps({"Pod": gpu_pod(), "Nodes": None, "NodeNames": ["n0"]}).encode()
        start = time.perf_counter()
        assert self.ask(body)["NodeNames"] == ["n0"]
        return time.perf_counter() - start

    def ask(self, body: bytes, path: str = "/filter") -> Any:
        """The answer to one request, whatever its status."""
        with self.connect() as connection, suppress(BrokenPipeError, ConnectionResetError):
            connection.sendall(_head(len(body), "Connection: close", path=path))
            connection.sendall(body)
            answer = b"".join(iter(lambda: connection.recv(65536), b""))
            return json.loads(answer.partition(b"\r\n\r\n")[2])
        return None


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


def _head(length: int, *more: str, path: str = "/filter") -> bytes:
    lines = [f"POST {path} HTTP/1.1", "Host: x", f"Content-Length: {length}", *more]
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


@pytest.mark.parametrize("attack", spread(tuple(ATTACKS), 1))
def test_memory_stays_bounded_and_the_scheduler_is_served(victim: Victim, attack: str) -> None:
    count, first, rest = ATTACKS[attack]
    with ExitStack() as stack:
        _flood(victim, stack, count, first, rest)
        victim.serve()
        grown = victim.memory() - victim.before
        assert grown < GROWTH, f"{attack}: {grown:.0f} MiB more, which ends the process where memory is limited"
    victim.serve()
    assert victim.process.poll() is None, f"{attack} ends the process"


def _wide(kind: bytes, size: int) -> bytes:
    """A well-formed request of that many bytes that is little values: each takes many times its text in memory."""
    return (
        b'{"Pod":{"metadata":{"uid":"u","name":"n"},"a":['
        + (kind + b",") * (size // (len(kind) + 1))
        + (kind + b']},"NodeNames":["n0"]}')
    )


def _request(pod: dict[str, Any], nodes: list[str]) -> bytes:
    return json.dumps({"Pod": pod, "NodeNames": nodes}, separators=(",", ":")).encode()


def _wishing(annotation: str, value: str) -> dict[str, Any]:
    return gpu_pod("wishing", annotations={annotation: value})


def _of_containers(count: int) -> dict[str, Any]:
    pod = gpu_pod("many")
    pod["spec"]["containers"] = [{"resources": {"limits": {names.RESOURCE_GPU_MEMORY: "1"}}}] * count
    return pod


SINGLE: dict[str, Callable[[], bytes]] = {
    "wide JSON": lambda: _wide(b"[]", 31 * MIB),
    "wide JSON that just passes": lambda: _wide(b"[]", 149_000 * 2),
    "objects that just pass": lambda: _wide(b'{"":0}', 49_900 * 7),
    "wide JSON of small size": lambda: _wide(b"{}", 256 * 1024 - 200),
    "2 million names": lambda: _request(gpu_pod("big", memory_mib=999_999), [f"n{i}" for i in range(2_000_000)]),
    "names that just pass": lambda: _request(
        gpu_pod("big", memory_mib=999_999), [f"node-{i:060}" for i in range(10_000)]
    ),
    "a wish of a million entries": lambda: _request(
        _wishing(names.ANNOTATION_GPU_UUID, ",".join(f"GPU-{i}" for i in range(1_000_000))), ["n0"]
    ),
    "a wish of 3 MiB": lambda: _request(_wishing(names.ANNOTATION_GPU_UUID, "x" * (3 * MIB)), ["n0"]),
    "a wish with no commas to count": lambda: _request(_wishing(names.ANNOTATION_GPU_PRODUCT, " " * (3 * MIB)), ["n0"]),
    "24,900 containers": lambda: _request(_of_containers(24_900), ["n0"]),
}


@pytest.mark.parametrize("attack", spread(tuple(SINGLE), 1))
def test_no_single_request_takes_the_memory_or_the_leadership(victim: Victim, attack: str) -> None:
    term = victim.ask(b"", "/state")["term"]
    body = SINGLE[attack]()
    for path in ("/filter", "/prioritize", "/bind"):
        victim.ask(body, path)
    victim.serve()
    state, grown = victim.ask(b"", "/state"), victim.memory() - victim.before
    assert grown < GROWTH, f"{attack}: {grown:.0f} MiB more, which ends the process where memory is limited"
    assert state["blocked"] < BLOCKED, (
        f"{attack}: no verb is answered and no Lease renewed for {state['blocked']:.2f} s"
    )
    assert state["term"] == term, f"{attack}: the leader has lost its Lease over one request"
