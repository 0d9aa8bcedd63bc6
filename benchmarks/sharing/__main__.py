"""Measure parts and write docs/results/sharing.md: `python -m benchmarks.sharing [PART...] [--quick] [--report]`.

Without names all parts are measured.
"""

from __future__ import annotations

import argparse
import time
from importlib import import_module
from typing import cast

from benchmarks.sharing.results import PARTS, Part, save, write


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
        print(f"wrote {write()}")


def _one(name: str, quick: bool) -> None:
    module = cast("Part", import_module(f"benchmarks.sharing.parts.{name}"))
    print(f"{name}: {module.TITLE} ...", flush=True)
    start = time.perf_counter()
    data = module.measure(quick)
    seconds = time.perf_counter() - start
    if not quick:
        save(name, data, seconds)
    print(module.describe(data))
    print(f"{name}: {seconds:.0f} s\n", flush=True)


if __name__ == "__main__":
    main()
