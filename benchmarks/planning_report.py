"""Measures the planners and writes docs/results/planning.md and planning.json.

Run: .venv/bin/python -m benchmarks.planning_report [--quick | --render]; --quick measures less and writes nothing,
--render only writes the page.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from benchmarks import bench_ilp, bench_kbest, bench_start
from benchmarks.reporting import machine

RESULTS = Path(__file__).parents[1] / "docs" / "results"
PARTS: Final[dict[str, Any]] = {"kbest": bench_kbest, "ilp": bench_ilp, "start": bench_start}

Row = tuple[str, str, str]

_NUMBER = r"[\d.]+"
_GAPS = """HetSev's heuristic keeps what runs and exchanges nothing, so with running instances it stays with types that
the integer program would replace, launching included: that gap is the price of the rule, not of the search. The last
row binds the optimum to the rule: it keeps the very running instances that the heuristic keeps. Without that binding
the goal is missed.
"""


def measured(rows: Iterable[Row]) -> Iterator[Row]:
    """Prints each row."""
    for what, value, goal in rows:
        verdict = f"goal: {goal}, {'held' if held(value, goal) else 'MISSED'}" if goal else ""
        print(f"{what:80} {value:46} {verdict}".rstrip(), flush=True)
        yield what, value, goal


def held(value: str, goal: str) -> bool:
    """Whether a figure keeps its goal: `< 1 ms`, `median < 10, p99 < 50 ms`, or an exact number."""
    if "<" not in goal:
        return value == goal
    for name, limit in re.findall(rf"(\w*) *< ({_NUMBER})", goal):
        found = re.search(rf"{name} ({_NUMBER})" if name else rf"({_NUMBER})", value)
        if found is None or not float(found[1]) < float(limit):
            return False
    return True


def table(rows: Iterable[Row]) -> str:
    lines = ["| what | measured | goal | |", "|---|---|---|---|"]
    for what, value, goal in rows:
        mark = "" if not goal else "held" if held(value, goal) else "**missed**"
        lines.append(f"| {what.strip()} | {value} | {goal} | {mark} |")
    return "\n".join(lines) + "\n"


def document(kbest: list[Row], ilp: list[Row], start: list[Row]) -> str:
    parts = [
        "# The planners, measured\n",
        "Written by `make bench-planning`. Times are processor time of one thread, compiled code loaded: "
        f"{machine('numba', 'pulp')}.\n",
        "## The ten best by bound and cost\n",
        table(kbest),
        "## HetSev's integer program and its heuristic\n",
        table(ilp),
        _GAPS,
    ]
    if start:
        parts += [
            "## A plan from process start\n",
            "Wall clock of one process after the other, as a user waits for it: interpreter, imports, files, plan.\n",
            table(start),
        ]
    return "\n".join(parts)


def entry(row: Row) -> dict[str, Any]:
    what, value, goal = row
    return {"what": what, "measured": value, "goal": goal or None, "held": held(value, goal) if goal else None}


def main() -> None:
    stored = RESULTS / "planning.json"
    if "--render" in sys.argv:
        whole = json.loads(stored.read_text(encoding="utf-8"))
        found = {name: [(e["what"], e["measured"], e["goal"] or "") for e in rows] for name, rows in whole.items()}
    else:
        found = {name: list(measured(part.rows())) for name, part in PARTS.items()}
    if "--quick" in sys.argv:
        return
    RESULTS.mkdir(parents=True, exist_ok=True)
    whole = {name: [entry(row) for row in rows] for name, rows in found.items()}
    stored.write_text(json.dumps(whole, indent=1) + "\n", encoding="utf-8")
    (RESULTS / "planning.md").write_text(
        document(found["kbest"], found["ilp"], found.get("start", [])), encoding="utf-8"
    )
    print(f"wrote {RESULTS / 'planning.md'}")


if __name__ == "__main__":
    main()
