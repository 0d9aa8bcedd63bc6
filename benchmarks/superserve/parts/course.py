"""Fig. 12: what SlackFit does as time goes by."""

from __future__ import annotations

from typing import Final

import numpy as np
from benchmarks.reporting import Json, table
from benchmarks.superserve.setting import Times, bursty, figures, play, policy, system

from hetserve.serving.session import Outcomes
from hetserve.simulation.arrivals import Ramp

TITLE: Final = "Fig. 12: dynamics"
_WORDS: Final = """Accuracy and joined queries over parts of half a second: least, mean and most. The paper, for
SlackFit: 76 to 78 % on bursty traces of 7000 queries/s, less as CV2 grows; from about 79.2 to 77.5 % on ramps, sooner
with the higher tau. The synthetic times are kinder than the paper's by about a point; what grows and falls is the
same.
"""


def measure(quick: bool) -> Json:
    seconds = 6.0 if quick else 30.0
    source = np.random.default_rng(3)
    traces: dict[str, Times] = {f"bursty, CV2 {cv2:g}": bursty(7000.0, cv2, seconds) for cv2 in (2.0, 4.0, 8.0)}
    for tau in (250.0, 5000.0):
        times = Ramp(2500.0, 7400.0, tau, 8.0).times(round(7400 * seconds), source)
        traces[f"ramp, tau {tau:g}"] = times[times < seconds]
    return {
        f"{name}, {rule}": _course(times, rule, seconds)
        for name, times in traces.items()
        for rule in ("slackfit", "rate-fit")
    }


def _course(times: Times, rule: str, seconds: float) -> Json:
    run = play(policy(rule), times, system())
    outcome, parts = run.outcome(), np.arange(0.0, seconds, 0.5)
    held = [(outcome.arrival >= start) & (outcome.arrival < start + 0.5) for start in parts]
    each = [figures(run, Outcomes._make(column[part] for column in outcome)) for part in held if part.any()]
    return {
        "accuracy": _span([one.accuracy for one in each]),
        "ends": f"{each[0].accuracy:.2f} to {each[-1].accuracy:.2f}",
        "joined": _span([one.joined for one in each]),
    }


def _span(values: list[float]) -> str:
    return f"{min(values):.2f} {np.mean(values):.2f} {max(values):.2f}"


def describe(data: Json) -> str:
    lines = [(name, one["accuracy"], one["ends"], one["joined"]) for name, one in data.items()]
    return f"{_WORDS}\n" + table(("", "accuracy", "first to last part", "joined"), lines)
