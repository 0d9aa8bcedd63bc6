"""Measure parts and write docs/results/router.md: `python -m benchmarks.router [PART...] [--quick] [--report]`.

Without names all parts are measured. The page is written after each part.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from benchmarks.reporting import Json, Kept, machine
from benchmarks.running import run

from hetserve_shell.http.server import raise_limit

PARTS: Final = ("forward", "added", "rpc", "money", "wire", "crowd")
KEPT: Final = Kept("router")
_HEAD: Final = """# The router measured

What a query costs that goes by `hetserve-router`, what its policy is worth beside nginx, HAProxy and Envoy, and whether
the wire does what the simulator says. `make bench-router` measures it and writes this page.
"""


def save(part: str, data: Json, seconds: float) -> None:
    KEPT.save(part, {"machine": machine("httptools", "numba", "uvloop"), "seconds": seconds}, data)
    write()


def write() -> Path:
    """Names parts that were never measured."""
    return KEPT.write(_HEAD, PARTS, "make bench-router FLAGS={}", _facts)


def _facts(about: Json) -> str:
    return f"In {about['seconds']:.0f} s on {about['machine']}.\n"


if __name__ == "__main__":
    raise_limit()  # of connections: those of the player, and of the processes that are started
    run(__doc__, KEPT, PARTS, save, write)
