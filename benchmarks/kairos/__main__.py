"""Measure figures and write docs/results/kairos.md: `python -m benchmarks.kairos [FIGURE...] [--full] [--jobs N]`.

Without names all are measured. `--report` only writes the report anew from what is kept.
"""

from __future__ import annotations

import argparse
import os
import time
from dataclasses import replace
from importlib import import_module
from typing import cast

from benchmarks.kairos.evaluation.measure import FULL, QUICK, Scale
from benchmarks.kairos.report.report import FIGURES, write_report
from benchmarks.kairos.report.results import Figure, save


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("figures", nargs="*", metavar="FIGURE", help=", ".join(FIGURES))
    parser.add_argument("--full", action="store_true", help="three seeds in searches, every model in every figure")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="threads (default: all cores)")
    parser.add_argument("--report", action="store_true", help="write the report from kept measurements only")
    options = parser.parse_args()
    unknown = sorted(set(options.figures) - set(FIGURES))
    if unknown:
        parser.error(f"unknown figure {', '.join(unknown)}; there are: {', '.join(FIGURES)}")
    scale = replace(FULL if options.full else QUICK, jobs=options.jobs)
    for name in () if options.report else options.figures or FIGURES:
        _one(name, scale)
    print(f"wrote {write_report()}")


def _one(name: str, scale: Scale) -> None:
    module = cast("Figure", import_module(f"benchmarks.kairos.figures.{name}"))
    print(f"{name}: {module.TITLE} ...", flush=True)
    start = time.perf_counter()
    data = module.measure(scale)
    seconds = time.perf_counter() - start
    save(name, data, scale, seconds, getattr(module, "used", lambda same: same)(scale))
    print(module.describe(data))
    print(f"{name}: {seconds:.0f} s\n", flush=True)


if __name__ == "__main__":
    main()
