"""How long a run must be before overload shows: one rule for every simulation, quick or full."""

from __future__ import annotations

import math
from typing import Final

SLOS: Final = 20
"""Least length of a run, in SLOs of arrivals."""


def fewest_queries(slo: float, rate: float) -> int:
    """Queries [at a rate in queries/s] that arrive in 20 times the SLO [s].

    At a rate a twentieth too high the backlog grows to the SLO in twenty times as long; in less than that any rate
    seems to be held.
    """
    return math.ceil(SLOS * slo * rate)
