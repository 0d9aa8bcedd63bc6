"""Whole GPUs that HetSev's four models need: shared, each instance alone, and the fewest found."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from itertools import product
from statistics import fmean
from typing import Final

from benchmarks.reporting import Json, table
from benchmarks.sharing.compared import PLACED, compared
from benchmarks.sharing.four import COURSE, KINDS, LEVELS, MIXED, PEAK, ROWS, SATURATION, cases, four
from benchmarks.sharing.results import goals
from benchmarks.sharing.rows import rows_of
from benchmarks.sharing.ways import EXCLUSIVE, NOW, Way

from hetserve.cli.capacity.together.play import PlannedService
from hetserve.placement.pods.requests import PolicyName

TITLE: Final = "Whole GPUs for HetSev's four models"
GOALS: Final = {"v100": 1.65, "t4": 1.6}
_NUMBERS: Final = tuple(product(KINDS, (ROWS[:1], ROWS[1:])))
"""What one process plans: courses meet the same loads at other times."""
_ABOUT: Final = {
    "fixed": "fixed loads",
    "in step": "loads that change, in step",
    "out of step": "loads that change, out of step",
}
_WORDS: Final = """GPUs of one type; loads are of what one instance of the model serves alone on it. Fixed: all four
at {levels}, and at {mixed} in either order. Loads that change: {course} of a
peak of {peak:g}, as in HetSev's section 6.3; out of step each of the four is two of these eight behind the one before.
They are planned for the load / {saturation:g}, as
services with spec.scaling are, and played at the load. Each service is planned alone. Counted are the GPUs of the
smallest cluster on which placement finds room for all, service by service (in brackets: the mean of 5 random orders);
exclusive: each instance has one of its own. Break: services late too often beside the others, at the worst of 3 seeds.
Fewest found: by a search in the joint simulation that knows all loads, which no rule does; no proof that fewer do not
do.
"""


def measure(quick: bool) -> Json:
    found = rows_of("savings", saved, range(len(_NUMBERS)), keep=not quick)
    return {"rows": [row for each in found for row in each["rows"]]}


def saved(number: int) -> Json:
    """Rows of one type, of fixed loads or of courses."""
    kind, names = _NUMBERS[number]
    return {"rows": [{"kind": kind, "row": row, "cases": [_case(kind, *case) for case in cases(row)]} for row in names]}


@cache
def _case(kind: str, loads: tuple[float, ...], follows: bool) -> Json:
    given = four(kind, loads, follows=follows)
    shared, alone = (list(_planned(way, kind, loads, follows=follows)) for way in (NOW, EXCLUSIVE))
    return {"loads": list(loads)} | compared(shared, alone, given.types)


def _planned(way: Way, kind: str, loads: Sequence[float], *, follows: bool) -> Iterator[PlannedService]:
    """At the load that is met."""
    room = SATURATION if follows else 1.0
    for k, load in enumerate(loads):
        planned = _one(way, kind, k, load, follows=follows)
        yield replace(planned, rate=planned.rate * room)


@cache
def _one(way: Way, kind: str, model: int, load: float, *, follows: bool) -> PlannedService:
    given = four(kind, (load,) * 4, follows=follows)
    return way.planned(given.services[model], given)


def describe(data: Json) -> str:
    rows = data["rows"]
    head = ("GPUs", "loads", "exclusive", *(f"`{policy}`" for policy in PLACED), "fewest found", "break", "most late")
    words = _WORDS.format(
        levels=_listed(LEVELS),
        mixed=_listed(MIXED[0]),
        course=_listed(COURSE),
        peak=PEAK,
        saturation=SATURATION,
    )
    return "\n".join(
        [
            words,
            table(head, [_line(row) for row in rows]),
            goals([_goal(kind, policy, rows) for kind in KINDS for policy in PLACED]),
            _stretches(rows),
        ]
    )


def _listed(numbers: Sequence[float]) -> str:
    return ", ".join(f"{number:g}" for number in numbers)


def _line(row: Json) -> tuple[object, ...]:
    cases = row["cases"]
    played = [one for case in cases for one in case["played"].values()]
    needs = [_needs(cases, policy) for policy in PLACED]
    late = max(max(one["late"]) for one in played)
    exclusive = sum(case["exclusive"] for case in cases)
    figures = [f"{own} ({mean:.1f}): {exclusive / own:.2f} x" for own, mean in needs]
    least, breaks = (sum(case["fewest"] for case in cases), sum(one["breaks"] for one in played))
    return (
        row["kind"],
        _ABOUT[row["row"]],
        exclusive,
        *figures,
        f"{least}: {exclusive / least:.2f} x",
        breaks,
        f"{late:.2%}",
    )


def _needs(cases: Sequence[Json], policy: str) -> tuple[int, float]:
    """(Service by service, mean of the random orders.)"""
    needs = [case["needs"][policy] for case in cases]
    return sum(one[0] for one in needs), sum(fmean(one[1:]) for one in needs)


def _goal(kind: str, policy: PolicyName, rows: Sequence[Json]) -> tuple[str, str, str, bool]:
    cases = [case for row in rows if row["kind"] == kind for case in row["cases"]]
    fewer = sum(case["exclusive"] for case in cases) / _needs(cases, policy)[0]
    what = f"{kind}, all rows: GPUs of exclusive instances over those needed by `{policy}`"
    return what, f">= {GOALS[kind]}", f"{fewer:.3f}", fewer >= GOALS[kind]


def _stretches(rows: Sequence[Json]) -> str:
    """What each policy needs and costs: stretch and instances are of the smallest cluster."""
    lines: list[tuple[object, ...]] = []
    for policy in PLACED:
        played = [case["played"][policy] for row in rows for case in row["cases"]]
        stretch, most = max(one["stretch"] for one in played), max(one["most on one"] for one in played)
        grown = sum(case["grown"][policy] for row in rows for case in row["cases"])
        needs = sum(_needs(row["cases"], policy)[0] for row in rows)
        lines.append((f"`{policy}`", needs, grown, f"{stretch:.2f}", most))
    fewest = sum(_fewest(case["counts"]) for row in rows for case in row["cases"])
    lines.append(("no policy can need less: these instances, three on a GPU", fewest, "", "", ""))
    head = (
        "all rows",
        "GPUs needed",
        "where one is added when needed",
        "greatest stretch met",
        "most instances on a GPU",
    )
    return table(head, lines)


def _fewest(counts: Sequence[dict[str, int]]) -> int:
    """GPUs that so many instances of the four models need at least: all four on one exceed sigma, as do two of one."""
    instances = [sum(one.values()) for one in counts]
    return max(*instances, -(-sum(instances) // (len(instances) - 1)))
