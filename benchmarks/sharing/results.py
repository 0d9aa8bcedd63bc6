"""Where measurements are kept, how docs/results/sharing.md is made, and which goals are measured elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from benchmarks.reporting import Json, Kept, machine, table, verdict

KEPT: Final = Kept("sharing", "sharing.parts")
PARTS: Final = (
    "statements",
    "traps",
    "savings",
    "demo",
    "small",
    "rule",
    "sets",
    "density",
    "policies",
    "gpu",
    "h200",
    "speed",
)
LIBRARIES: Final = ("numba", "NumPy", "SciPy", "highspy")
Goals = Sequence[tuple[str, str, str, bool | None]]

ELSEWHERE: Final = (
    (
        "extender: processor time per pod over the tree before",
        "<= 1.05",
        "`python -m benchmarks.bench_filter`, in both trees by turns",
        "[measured once](decisions.md#sharing-by-pairs)",
    ),
    (
        "planning time of a shared service over the tree before",
        "<= 1.5",
        "`hetserve plan manifests/samples/hetsev.yaml`, in both trees by turns",
        "[measured once](decisions.md#sharing-by-pairs)",
    ),
)
"""What, goal, the command that measures it, where the figures are."""

_HEAD: Final = """# Sharing a GPU, measured

`make bench-sharing` measures everything below and writes this page (`FLAGS="traps rule"`: only these parts;
`--quick`: less, and no page; `--report`: only the page; what was cut off goes on). [A real GPU](#a-real-gpu) was
measured on one. In all other parts shares of compute, interference and latencies are assumptions, those of four
models that HetSev's paper (Electronics 2023) shares GPUs among. While an instance serves, it is slowed by max(1 + sum
of c sqrt(b b') / 8, sum of u) over what is busy on its GPU: u is a share of compute, c what a neighbour does to it, b
are batches. These stretches come from the joint simulation of the product.

What is promised, and on what it rests: [how to measure sharing](../how-to-measure-sharing.md#what-is-promised).

## Goals that are measured elsewhere

"""


def goals(rows: Goals) -> str:
    """What, goal, figure, held; None: only reported."""
    marked = [(what, goal, figure, "" if held is None else verdict(held)) for what, goal, figure, held in rows]
    return table(("what", "goal", "figure", ""), marked)


def save(part: str, data: Json, seconds: float) -> None:
    about = {"command": f"make bench-sharing FLAGS={part}", "seconds": round(seconds, 1)}
    KEPT.save(part, about | {"machine": machine(*LIBRARIES)}, data)


def write() -> Path:
    """Names parts that were never measured."""
    head = _HEAD + table(("what", "goal", "command", "figures"), ELSEWHERE)
    return KEPT.write(head, PARTS, "make bench-sharing FLAGS={}", _facts)


def _facts(about: Json) -> str:
    return f"*`{about['command']}`: {about['seconds']:.0f} s; {about['machine']}.*\n"
