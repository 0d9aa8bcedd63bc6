"""Fig. 9: a rate that speeds up."""

from __future__ import annotations

from typing import Final

import numpy as np
from benchmarks.reporting import Json
from benchmarks.superserve.results import Row, rows, shown
from benchmarks.superserve.setting import met, system

from hetserve.simulation.arrivals import Ramp

TITLE: Final = "Fig. 9: arrivals that speed up"
LAST: Final = (4800.0, 6800.0, 7400.0)
TAU: Final = (250.0, 500.0, 5000.0)
POLICIES: Final = ("slackfit", "rate-fit", "max-batch", "79.44", "infaas")
_WORDS: Final = """From 2500 queries/s to the rate named, by tau queries/s each second; CV2 8, 30 s. The paper:
SlackFit reaches .991 to 1.0. The reference: .998 to 1.0 at 78.7 to 79.9.
"""


def measure(quick: bool) -> Json:
    found: Json = {}
    for last in LAST:
        for tau in TAU:
            trace, seconds = Ramp(2500.0, last, tau, 8.0), 5.0 if quick else 30.0
            times = trace.times(round(last * seconds), np.random.default_rng(3))
            times = times[times < seconds]
            found[f"{last:g}, tau {tau:g}"] = {name: met(name, times, system())._asdict() for name in POLICIES}
    return found


def describe(data: Json) -> str:
    claims = {"slackfit": (".991 to 1.0", 0.991), "rate-fit": ("", 0.991)}
    return f"{_WORDS}\n" + rows(
        Row(f"{policy}, {name}", claims.get(policy, ("", 0))[0], "", shown(one[policy]),
            one[policy]["attainment"] >= claims[policy][1] if policy in claims else None)
        for name, one in data.items() for policy in POLICIES
    )  # fmt: skip
