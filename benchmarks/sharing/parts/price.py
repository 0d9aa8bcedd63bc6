"""What the simple promise costs: GPUs under the booking rule beside the fewest that hold in the joint simulation."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Final

from benchmarks.reporting import Json, table
from benchmarks.sharing.bookings import SIGMA, Booked, drawn, fewest, members, tenants
from benchmarks.sharing.results import goals
from benchmarks.sharing.tenants import PERCENTILE, SEED, Tenant, met

TITLE: Final = "What the rule leaves unused"
TENANTS: Final = 5
_BANDS: Final = ((0.05, 0.3), (0.3, 0.6), (0.6, 0.75))
_MARGIN: Final = 1.1
_WORDS: Final = """Sets of {n} services with one instance each, shares of .15 to 1, factors of 1 to 1.25; every way to
share them out to GPUs is tried. Rule: bookings sum to at most 100. Simulation: each service keeps its SLO beside the
others on two seeds (98 %, {margin} x the p98 that it has alone with service times x sigma, where it would hold alone).
Used: loads x u over the GPUs.
"""


def measure(quick: bool) -> Json:
    rng, rows = random.Random(SEED), []  # noqa: S311
    for low, high in _BANDS:
        for _ in range(2 if quick else 12):
            given = [drawn(rng) for _ in range(TENANTS)]
            rows.append({"band": [low, high], **_compare(given, [rng.uniform(low, high) for _ in given])})
    return {"sigma": SIGMA, "rows": rows}


def _compare(given: list[Booked], loads: list[float]) -> Json:
    shared = [_with_slo(one, load) for one, load in zip(tenants(given), loads, strict=True)]
    sets = [members(gpu) for gpu in range(1 << len(given))]
    by_rule = [len(who) < 2 or sum(given[k].percent for k in who) <= 100 for who in sets]
    by_play = [len(who) < 2 or _holds([shared[k] for k in who], [loads[k] for k in who]) for who in sets]
    way = fewest(len(given), by_rule)
    return {
        "rule": len(way),
        "play": len(fewest(len(given), by_play)),
        "holds": all(by_play[gpu] for gpu in way),
        "used": sum(one.share * load for one, load in zip(given, loads, strict=True)),
    }


def _with_slo(tenant: Tenant, load: float) -> Tenant:
    alone = met([tenant], [load], 20_000, SEED, slowed=SIGMA)[0]
    return replace(tenant, slo=_MARGIN * alone.latencies[PERCENTILE])


def _holds(some: list[Tenant], loads: list[float]) -> bool:
    return all(report.holds for seed in (1, 2) for report in met(some, loads, 2_000, seed))


def describe(data: Json) -> str:
    rows = data["rows"]
    edges = sorted({tuple(row["band"]) for row in rows})
    lines = [_line(f"{low:g} to {high:g}", [r for r in rows if tuple(r["band"]) == (low, high)]) for low, high in edges]
    head = ("loads", "sets", "GPUs by the rule", "fewest that hold", "ratio", "used by the rule", "used by the fewest")
    kept = sum(row["holds"] for row in rows)
    return "\n".join(
        [
            _WORDS.format(n=TENANTS, margin=_MARGIN),
            table(head, [*lines, _line("all", rows)]),
            goals(
                [
                    ("sets that hold as the rule shares them out", "all", f"{kept} of {len(rows)}", kept == len(rows)),
                    ("GPUs by the rule over the fewest that hold", "", f"{_ratio(rows):.2f}", None),
                ]
            ),
        ]
    )


def _line(name: str, rows: list[Json]) -> tuple[object, ...]:
    by_rule, by_play = (sum(row[way] for row in rows) for way in ("rule", "play"))
    used = sum(row["used"] for row in rows)
    return (name, len(rows), by_rule, by_play, f"{_ratio(rows):.2f}", f"{used / by_rule:.0%}", f"{used / by_play:.0%}")


def _ratio(rows: list[Json]) -> float:
    return float(sum(row["rule"] for row in rows) / sum(row["play"] for row in rows))
