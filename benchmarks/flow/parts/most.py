"""Most throughput: what each planner's counts hold, against the best known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from benchmarks.flow.parts.figures import OURS, goals, ratios, summary
from benchmarks.reporting import Json, table

TITLE: Final = "Most throughput"
PLANNERS: Final = ("flow", "kairos", "homogeneous", "ilp")
_SPIKE: Final = {"flow": "0.988, 0.902"}
_WORDS: Final = """Best known: the most that any planner's counts, the fluid program's solutions at seven margins, every
single type or a neighbour by one instance of the best holds; on {exhaustive} of the pools, every configuration of the
budget. Found on one set of seeds, and held on another, which the figures are from. `ilp`: HetSev's program, which buys
the most capacity for the budget. {nothing} pools on which nothing holds the SLO are in no ratio.
"""


def collect(records: Sequence[Json]) -> Json:
    """Rows of random pools, without their trials."""
    return {"rows": [row(record) for record in records]}


def row(record: Json) -> Json:
    most = record["most"]
    return {
        "name": record["name"],
        "types": record["types"],
        "percentile": record["percentile"],
        "exhaustive": most["exhaustive"],
        "best": most["best"]["qps"],
        "bestCounts": most["best"]["counts"],
        "ceiling": most["ceiling"],
        "ourCeiling": most["plans"].get(OURS, {}).get("ceiling"),
        "plans": {name: one["counts"] for name, one in most["plans"].items() if one["feasible"]},
        "says": {name: one["says"] for name, one in most["plans"].items() if one["feasible"]},
        "held": most["held"],
        "own": record["policies"].get("own", {"hetserve": 0.0, "kairos": None}),
    }


def describe(data: Json) -> str:
    rows = data["rows"]
    held = [row for row in rows if row["best"] > 0]
    lines = []
    for planner in PLANNERS:
        if any(planner in row["plans"] for row in rows):
            shares = of_best(held, planner)
            small = of_best([row for row in held if row["exhaustive"]], planner)
            lines.append((f"`{planner}`", *summary(shares, 0.95), *summary(small, 0.95), _SPIKE.get(planner, "")))
    head = ("planner", "mean", "median", "worst", "below 0.95")
    searched = tuple(f"searched: {name}" for name in head[1:])
    words = _WORDS.format(exhaustive=sum(row["exhaustive"] for row in rows), nothing=len(rows) - len(held))
    parts = [f"{len(rows)} pools.\n", words, table((*head, *searched, "the spike's mean, worst"), lines)]
    if any(OURS in row["plans"] for row in rows):
        parts.append(goals(found(held)))
    return "\n".join(parts)


def of_best(rows: Sequence[Json], planner: str) -> list[float]:
    """What a planner's counts hold over the best known; no plan holds nothing."""
    return ratios([row["held"].get(planner, 0.0) for row in rows], [row["best"] for row in rows])


def found(rows: Sequence[Json]) -> list[tuple[str, str, str, bool | None]]:
    """What was asked, the goal, the figure, and whether it is held."""
    shares, searched = of_best(rows, OURS), of_best([row for row in rows if row["exhaustive"]], OURS)
    mean, worst = sum(shares) / len(shares), min(shares)
    ahead = {row["name"]: _ahead(row) for row in rows}
    behind = max(ahead, key=lambda name: ahead[name])
    own = [row["own"]["kairos"] / row["own"]["hetserve"] for row in rows if row["own"]["kairos"]]
    broken = [row["name"] for row in rows if row["ourCeiling"] and row["best"] > row["ourCeiling"]]
    says = [row["says"][OURS] / row["held"][OURS] for row in rows if row["held"].get(OURS) and row["says"].get(OURS)]
    return [
        ("held over the best known, mean", ">= 0.98", f"{mean:.3f}", mean >= 0.98),
        ("held over the best known, worst", ">= 0.92", f"{worst:.3f}", worst >= 0.92),
        ("small pools, searched exhaustively: worst", ">= 0.92", f"{min(searched, default=1.0):.3f}", None),
        (
            "another planner's counts over ours, most",
            "<= 1.03",
            f"{ahead[behind]:.3f} ({behind})",
            ahead[behind] <= 1.03,
        ),
        (
            "`kairos` under its own policy over ours under `hetserve`",
            "",
            f"above 1 on {len(own)} pools" + (f", at most {max(own):.3f}" if own else ""),
            None,
        ),
        ("pools where a mix holds more than the ceiling that the plan prints", "0", str(len(broken)), not broken),
        ("what the plan says it holds over what it holds", "", ", ".join(summary(says, 0.95)[:3]), None),
    ]


def _ahead(row: Json) -> float:
    """The most that another planner's counts hold over ours."""
    ours = row["held"].get(OURS, 0.0)
    theirs = max((rate for name, rate in row["held"].items() if name != OURS), default=0.0)
    return theirs / ours if ours else (float("inf") if theirs else 1.0)
