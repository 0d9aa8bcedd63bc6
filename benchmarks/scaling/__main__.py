"""Measure parts and write docs/results/scaling.md: `python -m benchmarks.scaling [PART...] [--quick] [--report]`.

Without names all parts are measured.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from benchmarks.reporting import Json, Kept, machine
from benchmarks.running import run

PARTS: Final = ("worth", "unseen", "noise", "speed", "demand", "twin")
KEPT: Final = Kept("scaling")
_HEAD: Final = """# Scaling measured

What following a load is worth, in virtual time ([how scaling is decided](../how-scaling-is-decided.md)), and how fast.
`make bench-scaling` measures it and writes this page.
"""


def save(part: str, data: Json, seconds: float) -> None:
    KEPT.save(part, {"machine": machine("numpy", "numba", "highspy"), "seconds": seconds}, data)


def write() -> Path:
    """Names parts that were never measured."""
    return KEPT.write(_HEAD, PARTS, "make bench-scaling FLAGS={}", _facts)


def _facts(about: Json) -> str:
    return f"In {about['seconds']:.0f} s on {about['machine']}.\n"


if __name__ == "__main__":
    run(__doc__, KEPT, PARTS, save, write)
