"""Changes of the plan under noise: a day around a rate, each minute up to 10 % more or less."""

from __future__ import annotations

from typing import Final

from benchmarks.reporting import Json, table, verdict
from benchmarks.scaling.days import noise
from benchmarks.scaling.worth import service

from hetserve.scaling import ScalingRules
from hetserve.scaling.plans.answers import Answers
from hetserve.scaling.replay.arrivals import arrivals_of
from hetserve.scaling.replay.following import Playing, Setting, follow

TITLE: Final = "Noise: a day of +-10 %"
LEVELS: Final = (5.0, 10.0, 15.0, 20.0, 25.0, 30.0, 35.0, 40.0, 50.0, 60.0)


def measure(quick: bool) -> Json:
    problem, ask = service(), Answers()
    rows = []
    for seed, level in enumerate(LEVELS[:2] if quick else LEVELS):
        arrived = arrivals_of(noise(level, seed), seed)
        made = follow(Setting(problem, ScalingRules()), arrived, ask, playing=Playing(seed + 1))
        rows.append({"level": level, "changes": len(made.changes) - 1})
    return {"rows": rows}


def describe(data: Json) -> str:
    most = max(row["changes"] for row in data["rows"])
    goal = ("changes of the plan in a day, after the first plan", "<= 1", f"{most} at most", verdict(most <= 1))
    rows = [(f"{row['level']:g}", row["changes"]) for row in data["rows"]]
    return "\n".join([table(("queries/s", "changes"), rows), table(("what", "goal", "figure", ""), [goal])])
