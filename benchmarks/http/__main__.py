"""Processor time and round trip per request: `python -m benchmarks.http [--rounds N] [--calls N]`.

Each server is one process on one thread. Rounds are interleaved, so that a busy machine costs all of them the same.
uvicorn is measured if it is installed, granian if its command is on PATH.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import shutil
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
BODIES: Final = {"32 B": 32, "20 KiB": 20 << 10}
UPSTREAM_PORT: Final = 8791
PORT: Final = 8792


def commands(port: int) -> Mapping[str, list[str]]:
    """Server to its command line."""
    found = {"ours": [sys.executable, "-m", "benchmarks.http.ours", str(port), "--upstream", _upstream()]}
    if importlib.util.find_spec("uvicorn"):
        options = ["--port", str(port), "--loop", "uvloop", "--no-access-log", "--log-level", "error"]
        found["uvicorn"] = [sys.executable, "-m", "uvicorn", "benchmarks.http.asgi:app", *options]
    if granian := shutil.which("granian"):
        options = ["--interface", "asginl", "--port", str(port), "--workers", "1", "--runtime-threads", "1"]
        found["granian"] = [granian, *options, "--no-ws", "--log-level", "error", "benchmarks.http.asgi:app"]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--calls", type=int, default=3000, help="calls of a round, one after the other")
    given = parser.parse_args()
    with running([sys.executable, "-m", "benchmarks.http.ours", str(UPSTREAM_PORT)], UPSTREAM_PORT):
        for path in ("/echo", "/forward"):
            for name, size in BODIES.items():
                print(f"{path}, body {name}: medians of {given.rounds} interleaved rounds of {given.calls} calls")
                for line in lines(path, size, given.rounds, given.calls):
                    print(f"  {line}", flush=True)


def lines(path: str, size: int, rounds: int, calls: int) -> Iterator[str]:
    """One line per server: processor time and round trip, and how many times ours it is."""
    taken: dict[str, list[tuple[float, float]]] = {}
    for round_ in range(rounds):
        for name, command in commands(PORT).items():
            print(f"\r  round {round_ + 1} of {rounds}: {name:10s}", end="\r", file=sys.stderr, flush=True)
            with running(command, PORT) as process:
                measure(process, path, size, calls // 10)
                taken.setdefault(name, []).append(measure(process, path, size, calls))
    ours = statistics.median(cpu for cpu, _ in taken["ours"])
    for name, figures in taken.items():
        cpu = statistics.median(cpu for cpu, _ in figures)
        trip = statistics.median(trip for _, trip in figures)
        yield f"{name:10s} {cpu:6.0f} us of processor time, {trip:6.0f} us round trip, {cpu / ours:4.2f} times ours"


def measure(process: subprocess.Popen[bytes], path: str, size: int, calls: int) -> tuple[float, float]:
    """(processor time, median round trip) of a call [us], on one kept connection."""
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {size}\r\n\r\n"
    request = head.encode() + b"x" * size
    trips = []
    with socket.create_connection(("127.0.0.1", PORT)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        before = processor_time(process.pid)
        for _ in range(calls):
            began = time.perf_counter()
            connection.sendall(request)
            _read_answer(connection)
            trips.append(time.perf_counter() - began)
        used = processor_time(process.pid) - before
    return used / calls * 1e6, statistics.median(trips) * 1e6


def _read_answer(connection: socket.socket) -> None:
    data = b""
    while b"\r\n\r\n" not in data:
        data += connection.recv(65536)
    head, _, body = data.partition(b"\r\n\r\n")
    length = next(
        int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length")
    )
    while len(body) < length:
        body += connection.recv(65536)


def processor_time(pid: int) -> float:
    """Seconds of a process and of its children, from the scheduler's own count in nanoseconds where it is kept."""
    children = [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    threads = Path(f"/proc/{pid}/task").iterdir()
    own = sum(int((thread / "schedstat").read_text().split()[0]) for thread in threads) / 1e9
    return own + sum(processor_time(child) for child in children)


@contextmanager
def running(command: list[str], port: int) -> Iterator[subprocess.Popen[bytes]]:
    """The server for the length of the block, from when it answers."""
    environment = {**os.environ, "UPSTREAM": _upstream(), "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(command, cwd=ROOT, env=environment)
    try:
        for _ in range(200):
            with suppress(ConnectionError), socket.create_connection(("127.0.0.1", port)):
                break
            time.sleep(0.05)
        yield process
    finally:
        process.terminate()
        process.wait()


def _upstream() -> str:
    return f"http://127.0.0.1:{UPSTREAM_PORT}"


if __name__ == "__main__":
    main()
