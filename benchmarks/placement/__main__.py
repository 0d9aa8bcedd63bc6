"""Measure sections and write docs/results/placement.md: `python -m benchmarks.placement [SECTION...] [--quick]`.

Without names all are measured. `--report` only writes the report anew from what is kept.
"""

from __future__ import annotations

import argparse
import time
from importlib import import_module
from typing import cast

from benchmarks.placement.results import SECTIONS, Scale, Section, save, write_report


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sections", nargs="*", metavar="SECTION", help=", ".join(SECTIONS))
    parser.add_argument("--quick", action="store_true", help="fewer rounds and sizes: to see that it works")
    parser.add_argument("--nodes", type=_sizes, default=(), metavar="N,N", help="cluster sizes of `rates`")
    parser.add_argument("--rounds", type=int, default=0, help="interleaved rounds of `rates`")
    parser.add_argument("--cases", type=_words, default=(), metavar="CASE,CASE", help="cases of `rates`")
    parser.add_argument("--report", action="store_true", help="write the report from kept measurements only")
    options = parser.parse_args()
    unknown = sorted(set(options.sections) - set(SECTIONS))
    if unknown:
        parser.error(f"unknown section {', '.join(unknown)}; there are: {', '.join(SECTIONS)}")
    scale = Scale(options.quick, options.nodes, options.rounds, options.cases)
    for name in () if options.report else options.sections or SECTIONS:
        _one(name, scale)
    print(f"wrote {write_report()}")


def _one(name: str, scale: Scale) -> None:
    module = cast("Section", import_module(f"benchmarks.placement.sections.{name}"))
    print(f"{name}: {module.TITLE} ...", flush=True)
    start = time.perf_counter()
    data = module.measure(scale)
    seconds = time.perf_counter() - start
    save(name, data, scale, seconds)
    print(module.describe(data))
    print(f"{name}: {seconds:.0f} s\n", flush=True)


def _sizes(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(","))


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split(","))


if __name__ == "__main__":
    main()
