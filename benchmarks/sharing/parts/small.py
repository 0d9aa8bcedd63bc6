"""Whole GPUs that twenty small services need, by how long they may take and how GPUs are sliced."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from statistics import fmean
from typing import Final

from benchmarks.reporting import Json, table
from benchmarks.sharing.compared import DENSEST, PLACED, compared
from benchmarks.sharing.found import alone
from benchmarks.sharing.results import goals
from benchmarks.sharing.rows import rows_of
from benchmarks.sharing.small import RULE, SERVICES, SLOS, small
from benchmarks.sharing.ways import DEFAULT, EXCLUSIVE, NOW

TITLE: Final = "Twenty small services"
SETS: Final = 2
GOALS: Final = {("ideal", 10): 10, ("h200", 10): 14}
_SLICES: Final = {"ideal": "ideal slices", "h200": "slices as on the H200"}
_NUMBERS: Final = tuple(product(_SLICES, SLOS, range(SETS)))
_WORDS: Final = """{rule} Mean of {sets} sets, of whole GPUs in the smallest cluster that takes all; late: of all
services of all sets, 3 seeds. Fewest found: by a search in the joint simulation that knows all loads, which no rule
does.
"""


def measure(quick: bool) -> Json:
    numbers = range(1, len(_NUMBERS), 4) if quick else range(len(_NUMBERS))
    return {"rows": rows_of("small", packed, numbers, keep=not quick)}


def packed(number: int) -> Json:
    """One set."""
    slices, slo, which = _NUMBERS[number]
    given = small(which, slo, ideal=slices == "ideal")
    shared = [NOW.planned(one, given) for one in given.services]
    apart = [alone(one) if sum(one.counts.values()) == 1 else EXCLUSIVE.planned(one.service, given) for one in shared]
    return {"slices": slices, "slo": slo} | compared(shared, apart, given.types)


def describe(data: Json) -> str:
    cells = {key: [row for row in data["rows"] if (row["slices"], row["slo"]) == key] for key in product(_SLICES, SLOS)}
    lines = [_line(*key, rows) for key, rows in cells.items() if rows]
    head = ("slices", "SLO", "exclusive", *(f"`{policy}`" for policy in PLACED), "fewest found", "breaks", "late")
    return "\n".join(
        [
            _WORDS.format(rule=RULE, sets=SETS),
            table(head, lines),
            goals([_goal(key, goal, cells[key]) for key, goal in GOALS.items() if cells[key]]),
        ]
    )


def _line(slices: str, slo: int, rows: Sequence[Json]) -> tuple[object, ...]:
    needs = [f"{_needs(rows, policy):.1f}" for policy in PLACED]
    breaks = sum(one["breaks"] for row in rows for one in row["played"].values())
    late = max(max(one["late"]) for row in rows for one in row["played"].values())
    exclusive, least = (f"{fmean(row[key] for row in rows):.1f}" for key in ("exclusive", "fewest"))
    return _SLICES[slices], f"{slo} x", exclusive, *needs, least, breaks, f"{late:.2%}"


def _needs(rows: Sequence[Json], policy: str) -> float:
    return fmean(row["needs"][policy][0] for row in rows)


def _goal(key: tuple[str, int], goal: int, rows: Sequence[Json]) -> tuple[str, str, str, bool]:
    found = _needs(rows, DEFAULT)
    what = f"{SERVICES} services, {_SLICES[key[0]]}, SLO {key[1]} x: GPUs (`{DEFAULT}`, the default; `{DENSEST}`)"
    return what, f"<= {goal}", f"{found:.1f}; {_needs(rows, DENSEST):.1f}", found <= goal
