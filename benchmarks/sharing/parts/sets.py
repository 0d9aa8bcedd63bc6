"""100 seeded sets of services on a few GPUs: how many can be served, and do those hold their SLOs together?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from benchmarks.reporting import Json, table
from benchmarks.sharing.bookings import SIGMA
from benchmarks.sharing.draws import RULE
from benchmarks.sharing.results import goals
from benchmarks.sharing.rows import rows_of
from benchmarks.sharing.served import SEEDS, served

TITLE: Final = "Sets of services"
SETS: Final = 100
FEASIBLE: Final = 0.6
HOLD: Final = 0.99
_WORDS: Final = """{rule}

Sigma {sigma}. Services are planned in turn by planner flow, each by the GPUs that those before it have left, and placed
by the extender's decisions; a set is feasible if each has a plan. Then all loads are played at once with {seeds} seeds
that no plan was tried with; of the seeds the worst counts. Before: the same sets planned by the times of a model alone
on its GPU and placed by memory alone, played with the first seed.
"""


def measure(quick: bool) -> Json:
    return {"sigma": SIGMA, "rows": rows_of("sets", served, range(4 if quick else SETS), keep=not quick)}


def describe(data: Json) -> str:
    rows = data["rows"]
    now, before = ([row[way] for row in rows] for way in ("now", "before"))
    feasible, held = _feasible(now), _held(now)
    head = (
        "planned and placed",
        "feasible",
        "services in these",
        "hold",
        "sets in which all hold",
        "instances on a GPU",
    )
    words = _WORDS.format(rule=RULE, sigma=data["sigma"], seeds=len(SEEDS))
    count, share = len(feasible), sum(held) / max(len(held), 1)
    rest = [
        (
            "greatest stretch that a query met",
            f"<= {data['sigma']}",
            f"{_most(now):.4f}",
            _most(now) <= data["sigma"] + 1e-9,
        ),
        ("before, of the services in what is called feasible: hold", "", _of(_held(before)), None),
    ]
    return "\n".join(
        [
            words,
            table(head, [_line("by compute and sigma", now), _line("before, by memory", before)]),
            _slower(now, data["sigma"]),
            goals(
                [
                    (
                        "sets that are feasible",
                        f">= {FEASIBLE:.0%}",
                        f"{count} of {len(rows)}",
                        count >= FEASIBLE * len(rows),
                    ),
                    ("of these, services that hold their SLO", f">= {HOLD:.0%}", _of(held), share >= HOLD),
                    *rest,
                ]
            ),
        ]
    )


def _feasible(rows: Sequence[Json]) -> list[Json]:
    return [row for row in rows if "refused" not in row]


def _held(rows: Sequence[Json]) -> list[bool]:
    return [one["holds"] for row in _feasible(rows) for one in row["played"]]


def _most(rows: Sequence[Json]) -> float:
    return max((one["most"] for row in _feasible(rows) for one in row["played"]), default=1.0)


def _of(held: Sequence[bool]) -> str:
    return f"{sum(held)} of {len(held)} ({sum(held) / max(len(held), 1):.1%})"


def _line(name: str, rows: Sequence[Json]) -> tuple[object, ...]:
    some = _feasible(rows)
    whole = sum(all(one["holds"] for one in row["played"]) for row in some)
    density = sum(row["instances"] for row in some) / max(sum(row["in_use"] for row in some), 1)
    held = _held(rows)
    return (name, f"{len(some)} of {len(rows)}", len(held), sum(held), whole, f"{density:.2f}")


def _slower(rows: Sequence[Json], sigma: float) -> str:
    """How much of sigma was met."""
    met = sorted(one["mean"] for row in _feasible(rows) for one in row["played"])
    if not met:
        return ""
    middle, worst = met[len(met) // 2], met[-1]
    half = f"half meet less than {middle:.3f}, the worst {worst:.3f}"
    return f"Mean stretch of a service: {half}, of the {sigma} planned for.\n"
