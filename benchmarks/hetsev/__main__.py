"""Measure parts and write docs/results/hetsev.md: `python -m benchmarks.hetsev [PART...] [--quick] [--jobs N]`.

Without names all parts are measured. `--report` only writes the page anew from what is kept.
"""

from __future__ import annotations

import os
from functools import partial

from benchmarks.hetsev.results import KEPT, PARTS, save, write
from benchmarks.hetsev.scale import SEEDS, quick, whole
from benchmarks.running import chosen, measure, names_parser


def main() -> None:
    parser = names_parser(__doc__, PARTS)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes (default: all cores)")
    parser.add_argument("--quick", action="store_true", help="one seed of ten minutes, printed only")
    parser.add_argument("--seeds", type=int, default=SEEDS, help=f"how many are reported (default: {SEEDS})")
    options = parser.parse_args()
    scale = quick(options.jobs) if options.quick else whole(options.jobs, options.seeds)
    for name in chosen(parser, options, PARTS):
        measure(KEPT, name, scale, None if options.quick else partial(save, scale, name))
    if not options.quick:
        print(f"wrote {write()}")


if __name__ == "__main__":
    main()
