"""Measure sections and write docs/results/placement.md: `python -m benchmarks.placement [SECTION...] [--quick]`.

Without names all are measured. `--report` only writes the report anew from what is kept.
"""

from __future__ import annotations

from functools import partial

from benchmarks.placement.results import KEPT, SECTIONS, Scale, save, write_report
from benchmarks.running import chosen, measure, names_parser


def main() -> None:
    parser = names_parser(__doc__, SECTIONS, "section")
    parser.add_argument("--quick", action="store_true", help="fewer rounds and sizes: to see that it works")
    parser.add_argument("--nodes", type=_sizes, default=(), metavar="N,N", help="cluster sizes of `rates`")
    parser.add_argument("--rounds", type=int, default=0, help="interleaved rounds of `rates`")
    parser.add_argument("--cases", type=_words, default=(), metavar="CASE,CASE", help="cases of `rates`")
    options = parser.parse_args()
    scale = Scale(options.quick, options.nodes, options.rounds, options.cases)
    for name in chosen(parser, options, SECTIONS, "section"):
        measure(KEPT, name, scale, partial(save, name, scale))
    print(f"wrote {write_report()}")


def _sizes(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(","))


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split(","))


if __name__ == "__main__":
    main()
