"""Measure figures and write docs/results/kairos.md: `python -m benchmarks.kairos [FIGURE...] [--full] [--jobs N]`.

Without names all are measured. `--report` only writes the report anew from what is kept.
"""

from __future__ import annotations

import os
from dataclasses import replace
from functools import partial

from benchmarks.kairos.evaluation.measure import FULL, QUICK
from benchmarks.kairos.report.report import FIGURES, write_report
from benchmarks.kairos.report.results import KEPT, save
from benchmarks.running import chosen, measure, names_parser


def main() -> None:
    parser = names_parser(__doc__, FIGURES, "figure")
    parser.add_argument("--full", action="store_true", help="three seeds in searches, every model in every figure")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="threads (default: all cores)")
    options = parser.parse_args()
    scale = replace(FULL if options.full else QUICK, jobs=options.jobs)
    for name in chosen(parser, options, FIGURES, "figure"):
        measure(KEPT, name, scale, partial(save, name, scale))
    print(f"wrote {write_report()}")


if __name__ == "__main__":
    main()
