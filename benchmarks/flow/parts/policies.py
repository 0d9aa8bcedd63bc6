"""Policy `hetserve` against every other at the best counts of each pool."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Final

from benchmarks.flow.parts.figures import goals
from benchmarks.reporting import Json, table

TITLE: Final = "Dispatch policies at the best counts"


def collect(records: Sequence[Json]) -> Json:
    rows = [{"name": record["name"], **record["policies"]} for record in records if record["policies"]]
    return {"rows": rows}


def describe(data: Json) -> str:
    rows = data["rows"]
    lines = []
    for policy in rows[0]["above"]:
        over = [row["above"][policy] / row["hetserve"] for row in rows if row["above"][policy] and row["hetserve"]]
        lines.append((f"`{policy}`", f"{len(over)} of {len(rows)}", f"{max(over):.3f}" if over else "-"))
    ours = [of_best(row) for row in rows]
    mean, worst = statistics.fmean(ours), min(ours)
    lowest = rows[ours.index(worst)]["name"]
    return "\n".join(
        [
            "Allowable rates at the best known counts of each pool, every policy by the same rule.\n",
            table(("policy", "allows more than `hetserve`", "over it, most"), lines),
            goals(
                [
                    ("`hetserve` over the best policy, mean", ">= 0.98", f"{mean:.3f}", mean >= 0.98),
                    ("`hetserve` over the best policy, worst", ">= 0.93", f"{worst:.3f} ({lowest})", worst >= 0.93),
                ]
            ),
        ]
    )


def of_best(row: Json) -> float:
    """What `hetserve` allows over the best policy."""
    best = max([row["hetserve"], *(rate for rate in row["above"].values() if rate)])
    return float(row["hetserve"] / best) if best else 1.0
