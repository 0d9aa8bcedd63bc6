"""Where measurements are kept, and how docs/results/fang.md is made."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from benchmarks.fang.world import RATES
from benchmarks.reporting import Json, Kept, machine, table

KEPT: Final = Kept("fang", "fang.parts")
PARTS: Final = ("tables", "unstated", "learned", "figures")
LIBRARIES: Final = ("numba", "NumPy")

_HEAD: Final = f"""# Fang et al.'s schedulers, measured again

`make bench-fang` measures everything below and writes this page (`FLAGS="tables unstated"`: only these parts;
`--quick`: less, and no page; `--report`: only the page). The paper's tables are read from `HETSERVE_DATA` (else
`../shared/data`). Cells are mean quality (standard deviation) / percent of answers by the tiny model. **Bold**: outside
the goal.

Setting: YOLO, full (kappa 1) and tiny (0.5), on one p2.xlarge, or on 5 g2.2xlarge and 5 p2.xlarge at eight times the
rate; service times of Table 1, linear between its sizes, 3 % noise; soft deadline 1 s, hard deadline 2 s. The trace of
SogouQ is not available. So each window of three hours has one rate: {", ".join(f"{rate:g}" for rate in RATES.values())}
queries/s, fitted so that the share of tiny under the heuristic on one GPU is the paper's. Nothing else is fitted, and
nothing for ten GPUs. Queries cluster around the middle of each second with a deviation of 0.1 s, on a grid of 10 ms,
and come after a Pareto-distributed delay (30 ms at least, shape 2).

"""


def cell(found: Sequence[float], missed: bool = False) -> str:
    """found: mean quality, its deviation, share of tiny."""
    text = f"{found[0]:.3f} ({found[1]:.3f}) / {100 * found[2]:.1f}"
    return f"**{text}**" if missed else text


def by_window(rows: Sequence[tuple[str, Sequence[str]]]) -> str:
    return table(["", *(f"{window} h" for window in RATES)], [(name, *cells) for name, cells in rows])


def save(part: str, data: Json, seconds: float) -> None:
    about = {"command": f"make bench-fang FLAGS={part}", "seconds": round(seconds, 1)}
    KEPT.save(part, about | {"machine": machine(*LIBRARIES)}, data)


def write() -> Path:
    """Names parts that were never measured."""
    return KEPT.write(_HEAD, PARTS, "make bench-fang FLAGS={}", _facts)


def _facts(about: Json) -> str:
    return f"*`{about['command']}`: {about['seconds']:.0f} s; {about['machine']}.*\n"
