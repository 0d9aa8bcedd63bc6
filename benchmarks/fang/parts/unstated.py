"""What the paper does not state and what decides: each both ways."""

from __future__ import annotations

import math
from typing import Any, Final

from benchmarks.fang.results import by_window, cell
from benchmarks.fang.world import FLEETS, RATES, play
from benchmarks.reporting import Json

from hetserve.dispatch.joining import JoiningPolicy
from hetserve.dispatch.joining.fang import fixed, heuristic
from hetserve.simulation.clustered import ClusteredArrivals

TITLE: Final = "What the paper leaves open, both ways"
_CASES: Final[dict[str, tuple[JoiningPolicy, dict[str, Any]]]] = {
    "heuristic": (heuristic(), {}),
    "heuristic, kappa counts in the choice of the model (`own`)": (heuristic(models="own"), {}),
    "heuristic tuned by hand (alpha 0.75, beta 1.5), `own`": (heuristic(0.75, 1.5, models="own"), {}),
    "heuristic, queries spread evenly over each second": (
        heuristic(),
        {"arrivals": ClusteredArrivals(deviation=math.inf)},
    ),
    "heuristic, no delay on the way": (heuristic(), {"arrivals": ClusteredArrivals(delay=0.0)}),
    "heuristic, between sizes the time of the next size": (heuristic(), {"between": False}),
    "fixed": (fixed(), {}),
    "fixed, kappa counts (`own`)": (fixed(models="own"), {}),
    "fixed, queries spread evenly over each second": (fixed(), {"arrivals": ClusteredArrivals(deviation=math.inf)}),
    "fixed, between sizes the time of the next size": (fixed(), {"between": False}),
}
_WORDS: Final = """The text multiplies by kappa outside of a sum of Q, which contains it already. The tables fit a
choice by time utility alone (`late`), and queries that cluster. A heuristic that counts kappa, with larger alpha and
beta, is far better than the paper's on one GPU.
"""


def measure(quick: bool) -> Json:
    seconds = 600 if quick else 3600
    return {
        name: {
            case: {window: play(name, policy, window, seconds=seconds, **how).cell for window in RATES}
            for case, (policy, how) in _CASES.items()
        }
        for name in FLEETS
    }


def describe(data: Json) -> str:
    texts = [_WORDS]
    for name, title in (("one", "One p2, the first hour of each window"), ("ten", "5 g2 + 5 p2, the same")):
        rows = [(case, [cell(found[window]) for window in RATES]) for case, found in data[name].items()]
        texts += [f"{title}:\n", by_window(rows)]
    return "\n".join(texts)
