"""The second family: problems from all that the API accepts, held against laws."""

from __future__ import annotations

from collections import Counter
from typing import Final

from benchmarks.flow.parts.figures import goals
from benchmarks.reporting import Json

from testing.plan_laws import LAWS, PLANNERS

TITLE: Final = "All that the API accepts"
_WORDS: Final = """{pools} problems, four rising loads each, from 1e-5 instances to a hundred: mixes by name and by list
with shares down to 1e-12, 1 to 12 types up to ten thousand times apart in speed and price, lines and tables with humps,
SLO 1.1 to 100 service times, limits and least instances. Planned by {planners}.
Cost may fall by 2 % (quick plans: 5 %) or by one of the cheapest instances where the load rises.
"""
_LISTED: Final = 5


def describe(data: Json) -> str:
    rows = data["rows"]
    words = _WORDS.format(pools=len(rows), planners=", ".join(PLANNERS))
    broken = [(row["name"], one) for row in rows for one in row["broken"]]
    times = Counter(one["law"] for _, one in broken)
    kept = [(f"plans that break the law: {law}", "0", str(times[law]), not times[law]) for law in LAWS]
    hit = len({name for name, _ in broken})
    listed = [f"- {name}, {one['planner']}, {one['law']}: {one['words']}" for name, one in broken[:_LISTED]]
    return "\n".join([words, goals([*kept, ("problems that break one", "0", str(hit), not hit)]), *listed])
