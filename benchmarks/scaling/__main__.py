"""Measure parts and write docs/results/scaling.md: `python -m benchmarks.scaling [PART...] [--quick] [--report]`.

Without names all parts are measured.
"""

from __future__ import annotations

import argparse
import time
from importlib import import_module
from typing import Final, Protocol, cast

from benchmarks.reporting import Json, Kept, machine

PARTS: Final = ("worth", "unseen", "noise", "speed", "demand", "twin")
KEPT: Final = Kept("scaling")
_HEAD: Final = """# Scaling measured

What following a load is worth, in virtual time ([how scaling is decided](../how-scaling-is-decided.md)), and how fast.
`make bench-scaling` measures it and writes this page.
"""


class Part(Protocol):
    TITLE: str

    def measure(self, quick: bool, /) -> Json: ...

    def describe(self, data: Json, /) -> str: ...


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--quick", action="store_true", help="less, printed only: to see that it works")
    parser.add_argument("--report", action="store_true", help="write the page from what is kept")
    options = parser.parse_args()
    unknown = sorted(set(options.parts) - set(PARTS))
    if unknown:
        parser.error(f"unknown part {', '.join(unknown)}; there are: {', '.join(PARTS)}")
    for name in () if options.report else options.parts or PARTS:
        _one(name, options.quick)
    if not options.quick:
        print(f"wrote {KEPT.write(_HEAD, PARTS, 'make bench-scaling FLAGS={}', _facts)}")


def _one(name: str, quick: bool) -> None:
    part = cast("Part", import_module(f"benchmarks.scaling.{name}"))
    print(f"{name}: {part.TITLE} ...", flush=True)
    start = time.perf_counter()
    data = part.measure(quick)
    seconds = time.perf_counter() - start
    if not quick:
        KEPT.save(name, {"machine": machine("numpy", "numba", "highspy"), "seconds": seconds}, data)
    print(part.describe(data))
    print(f"{name}: {seconds:.0f} s\n", flush=True)


def _facts(about: Json) -> str:
    return f"In {about['seconds']:.0f} s on {about['machine']}.\n"


if __name__ == "__main__":
    main()
