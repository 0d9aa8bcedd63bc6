"""docs/results/flow.md and its data, from the kept records of the pools."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final, Protocol

from benchmarks.flow import store
from benchmarks.flow.parts import kairos_models, least, most, picture, policies
from benchmarks.flow.parts.figures import OURS
from benchmarks.reporting import Json, Kept, machine

KEPT: Final = Kept("flow", "flow.parts")
PARTS: Final = ("most", "least", "wide", "again", "quick", "kairos_models", "policies", "times")
LIBRARIES: Final = ("numba", "NumPy", "SciPy", "highspy")

_HEAD: Final = """# Planner flow, measured

`make bench-flow` measures everything below and writes this page (`FLAGS="--jobs 16"`: more processes; `--pools 8`,
`--quick`: less; `--report`: only the page). What it has measured it keeps in `build/bench-flow`, a file for each pool,
and a run that was cut off goes on there.

Pools are drawn by a seeded generator: 3 to 6 types, one fast, the others 1.1 to 8 times slower with prices that fall at
different rates; batches up to 64 to 4000 items, log-normal, of two modes, uniform or Pareto; SLO 1.2 to 3 times the
slowest batch of the fast type, at p95, p99 or p99.9; latencies that vary by 2 to 15 %, or not at all; 2.5 to 15 $/h.
Every rate is the highest at which a simulation under policy `hetserve` keeps the percentile over four seeds of 40,000
queries and no backlog grows; no planner draws from these seeds, nor did the search for the best known.
Figures marked *spike* are those of the experiment that came before, on 83 problems of the same shape.
"""


class Part(Protocol):
    def collect(self, records: Sequence[Json]) -> Json:
        """Rows for text and picture."""
        ...


def collect(random: Sequence[str], kairos: Sequence[str], command: str) -> None:
    """Data of the sections from what is kept of these pools."""
    sections: tuple[tuple[str, Part, Sequence[str]], ...] = (
        ("most", most, random),
        ("least", least, random),
        ("policies", policies, random),
        ("kairos_models", kairos_models, kairos),
    )
    for name, part, pools in sections:
        records = store.records(pools)
        if records:
            seconds = sum(record["seconds"] for record in records)
            KEPT.save(name, about(command, seconds, [record["code"] for record in records]), part.collect(records))


def about(command: str, seconds: float, codes: Sequence[str] = ()) -> Json:
    """seconds: of one processor. codes: versions of the planners."""
    versions = sorted(set(codes))
    return {"command": command, "seconds": round(seconds), "machine": machine(*LIBRARIES), "versions": len(versions)}


def write() -> Path:
    throughput, costs = KEPT.load("most"), KEPT.load("least")
    if throughput and costs and any(OURS in row["plans"] for row in throughput[1]["rows"]):
        picture.draw(throughput[1]["rows"], costs[1]["rows"])
    return KEPT.write(_HEAD, PARTS, "make bench-flow", _facts)


def _facts(about: Json) -> str:
    mixed = ", planners of several versions" if about["versions"] > 1 else ""
    return f"*`{about['command']}`: {about['seconds']} s of one processor{mixed}; {about['machine']}.*\n"
