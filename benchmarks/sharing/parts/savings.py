"""Whole GPUs that HetSev's four models need: shared, each instance alone, and the fewest found."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import product
from typing import Final

from benchmarks.reporting import Json, table
from benchmarks.sharing.compared import compared
from benchmarks.sharing.four import COURSE, KINDS, LEVELS, MIXED, PEAK, SATURATION, cases, four
from benchmarks.sharing.results import goals
from benchmarks.sharing.rows import rows_of
from benchmarks.sharing.ways import EXCLUSIVE, NOW, POLICIES, Way

from hetserve.api.manifests import Manifests
from hetserve.cli.capacity.together.play import PlannedService

TITLE: Final = "Whole GPUs for HetSev's four models"
GOALS: Final = {"v100": 1.65, "t4": 1.6}
ROWS: Final = ("fixed", "in step", "out of step")
_NUMBERS: Final = tuple(product(KINDS, (ROWS[:1], ROWS[1:])))
"""What one process plans: courses meet the same loads at other times."""


def measure(quick: bool) -> Json:
    found = rows_of("savings", saved, range(len(_NUMBERS)), keep=not quick)
    return {"rows": [row for each in found for row in each["rows"]]}


def saved(number: int) -> Json:
    """Rows of one type, of fixed loads or of courses."""
    kind, names = _NUMBERS[number]
    return {"rows": [{"kind": kind, "row": row, "cases": [_case(kind, *case) for case in cases(row)]} for row in names]}


def _case(kind: str, loads: Sequence[float], follows: bool) -> Json:
    given = four(kind, loads, follows=follows)
    shared, alone = (list(_planned(way, given, kind, loads, follows=follows)) for way in (NOW, EXCLUSIVE))
    return {"loads": list(loads)} | compared(shared, alone, given.types)


def _planned(
    way: Way, given: Manifests, kind: str, loads: Sequence[float], *, follows: bool
) -> Iterator[PlannedService]:
    """At the load that is met."""
    room = SATURATION if follows else 1.0
    for k, load in enumerate(loads):
        planned = _one(way, kind, k, load, follows=follows)
        yield replace(planned, rate=planned.rate * room)


@lru_cache(maxsize=None)
def _one(way: Way, kind: str, model: int, load: float, *, follows: bool) -> PlannedService:
    given = four(kind, (load,) * 4, follows=follows)
    return way.planned(given.services[model], given)
