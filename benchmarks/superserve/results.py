"""Where measurements are kept, how docs/results/superserve.md is made, and rows beside paper and reference."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple

from benchmarks.reporting import Json, Kept, machine, table, verdict

KEPT: Final = Kept("superserve", "superserve.parts")
PARTS: Final = ("coarse", "bursts", "ramps", "real", "micro", "course", "fixed", "traps", "cells", "speed")
_HEAD: Final = """# SuperServe's figures, measured again, and our policy beside its own

`make bench-superserve` measures everything below and writes this page (`FLAGS="bursts cells"`: only these parts;
`--quick`: less, and no page; `--report`: only the page).

Setting: six subnets of one supernet, 73.82 to 80.16 % accurate, at most 16 queries together; eight instances; an SLO of
36 ms; queries that not even the fastest subnet answers in time are dropped, and are misses. **The service times are
SYNTHETIC**: those of the paper's RTX 2080Ti are not public as text. They are lines fitted to public times on an A40,
stretched by 1.4 so that what the paper says of its real trace is met. **The Azure Functions trace is not public
either**: recorded arrivals of LLM requests (Azure, 2023), scaled to the rate, stand in for it.

A figure is the share of the queries in time / the mean accuracy of these in percent. *Reference*: an independent
simulation in plain Python on the same times, one seed of its own. What the paper states is marked held or missed; so is
what our policy, `rate-fit`, is to reach.
"""


class Row(NamedTuple):
    """One figure. paper, reference: "" where they state none. held: None: only reported."""

    what: str
    paper: str
    reference: str
    ours: str
    held: bool | None = None


def rows(found: Iterable[Row]) -> str:
    marked = [(*row[:4], "" if row.held is None else verdict(row.held)) for row in found]
    return table(("", "paper", "reference", "ours", ""), marked)


def near(ours: Json, reference: str) -> bool:
    """Whether a figure is within .005 and 0.1 points of a reference's."""
    attainment, accuracy = map(float, reference.split(" / "))
    return bool(abs(ours["attainment"] - attainment) <= 0.005 and abs(ours["accuracy"] - accuracy) <= 0.1)


def shown(figure: Json) -> str:
    return f"{figure['attainment']:.4f} / {figure['accuracy']:.2f}"


def save(part: str, data: Json, seconds: float) -> None:
    about = {"command": f"make bench-superserve FLAGS={part}", "seconds": round(seconds, 1)}
    KEPT.save(part, about | {"machine": machine("numba", "NumPy")}, data)


def write() -> Path:
    """Names parts that were never measured."""
    return KEPT.write(_HEAD, PARTS, "make bench-superserve FLAGS={}", _facts)


def _facts(about: Json) -> str:
    return f"*`{about['command']}`: {about['seconds']:.0f} s; {about['machine']}.*\n"
