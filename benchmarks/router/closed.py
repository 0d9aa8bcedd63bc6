"""Closed loops of wrk: as many queries as connections are always on their way, so a proxy works as much as it can."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.router.balancers import joined
from benchmarks.router.player import Address
from benchmarks.router.processes import program

_REQUESTS: Final = re.compile(r"(\d+) requests in ")
_OTHERS: Final = re.compile(r"Non-2xx or 3xx responses: (\d+)")
_ERRORS: Final = re.compile(r"Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)")


@dataclass(frozen=True, slots=True)
class ClosedLoad:
    """What each connection sends, again and again. headers: without the length."""

    name: str
    connections: int
    path: str
    headers: dict[str, str]
    body: bytes
    seconds: int = 3


@dataclass(frozen=True, slots=True)
class ClosedRound:
    """queries: answered. refused: with another status than 2xx. cpu: of the proxy, for each query [us]."""

    queries: int
    refused: int
    cpu: float


def json_body(items: int, size: int) -> bytes:
    """A query of so many items, padded to `size` bytes."""
    text = b'{"inputs":[{"name":"x","shape":[%d],"datatype":"INT64","data":[%b]}]}'
    body = text % (items, b",".join([b"1"] * items))
    return body[:-1] + b" " * (size - len(body)) + b"}"


def binary_body(size: int) -> tuple[bytes, dict[str, str]]:
    """A query with one tensor of `size` bytes behind its JSON, and its headers."""
    tensor = b'{"name":"x","shape":[1,%d],"datatype":"UINT8","parameters":{"binary_data_size":%d}}' % (size, size)
    text = b'{"inputs":[%b]}' % tensor
    headers = {"content-type": "application/octet-stream", "inference-header-content-length": str(len(text))}
    return text + b"x" * size, headers


def play(folder: Path, load: ClosedLoad, address: Address, cpu: Callable[[], float]) -> ClosedRound:
    """One round. cpu: processor time of the proxy so far [s]. Raises RuntimeError where nothing was answered."""
    script = folder / f"wrk-{load.name}.lua"
    (folder / f"wrk-{load.name}.body").write_bytes(load.body)
    headers = "".join(f'wrk.headers["{name}"] = "{value}"\n' for name, value in load.headers.items())
    script.write_text(
        f'wrk.method = "POST"\nlocal file = io.open("{folder}/wrk-{load.name}.body", "rb")\n'
        f'wrk.body = file:read("*a")\nfile:close()\n{headers}',
        encoding="utf-8",
    )
    command = [program("wrk"), "--threads", "1", "--connections", str(load.connections), "--timeout", "30s"]
    command += ["--duration", f"{load.seconds}s", "--script", str(script), f"http://{joined(address)}{load.path}"]
    before = cpu()
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    used = cpu() - before
    queries, refused = read(done.stdout)
    if done.returncode or not queries:
        raise RuntimeError(f"wrk at {joined(address)}: {done.stdout}{done.stderr}")
    return ClosedRound(queries, refused, used / queries * 1e6)


def read(said: str) -> tuple[int, int]:
    """Queries that wrk counted, and how many of them were refused or failed."""
    requests, others, errors = (each.search(said) for each in (_REQUESTS, _OTHERS, _ERRORS))
    failed = int(others[1]) if others else 0
    failed += sum(map(int, errors.groups())) if errors else 0
    return (int(requests[1]) if requests else 0), failed
