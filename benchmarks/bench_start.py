"""`hetserve plan` from process start to its answer: several processes, wall clock.

Run: .venv/bin/python -m benchmarks.bench_start [--quick]; benchmarks.planning_report writes it down.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

Row = tuple[str, str, str]

SAMPLES = Path(__file__).parents[1] / "manifests" / "samples"
PROCESSES = 3 if "--quick" in sys.argv else 15
CASES = {
    "hetserve plan rm2.yaml --planner kairos": ("rm2.yaml", "--planner", "kairos"),
    "hetserve plan hetsev.yaml --planner ilp": ("hetsev.yaml", "--planner", "ilp"),
}


def seconds(arguments: tuple[str, ...]) -> float:
    """Wall clock of one process. Raises CalledProcessError."""
    name, *options = arguments
    command = [sys.executable, "-m", "hetserve.cli", "plan", str(SAMPLES / name), *options]
    started = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - started


def rows() -> Iterator[Row]:
    """Every figure as measured; the first process of each fills the file caches."""
    for what, arguments in CASES.items():
        seconds(arguments)
        times = [seconds(arguments) for _ in range(PROCESSES)]
        value = f"median {statistics.median(times):.2f}, max {max(times):.2f} s"
        yield f"{what}: {PROCESSES} processes", value, "median < 1 s"


def main() -> None:
    for what, value, goal in rows():
        print(f"{what:80} {value:42} goal: {goal}", flush=True)


if __name__ == "__main__":
    main()
