"""Simulated annealing (Kairos, Fig. 2): a walk that accepts worse configurations ever less.

A step changes one instance. A worse configuration is accepted with probability exp(relative loss / temperature); every
step multiplies the temperature by COOLING. A cold walk restarts from an open configuration.
"""

from __future__ import annotations

import math
from random import Random
from typing import Final

from hetserve.planning.search.session import Session

START_TEMPERATURE: Final = 0.3
"""A configuration that holds 30 % less is accepted with probability 1/e at the start."""
COOLING: Final = 0.95
_COLD: Final = 0.01


def run(session: Session, seed: int) -> None:
    source = Random(seed)  # noqa: S311  reproducible, nothing secret
    at, temperature = _restart(session, source), START_TEMPERATURE
    while not session.over:
        around = session.space.neighbours(at)
        if temperature < _COLD or not around:
            at, temperature = _restart(session, source), START_TEMPERATURE
            continue
        step = source.choice(around)
        here, there = session.value(at), session.value(step)
        loss = (there - here) / here if here > 0 else 0.0
        if loss >= 0 or source.random() < math.exp(loss / temperature):
            at = step
        temperature *= COOLING


def _restart(session: Session, source: Random) -> int:
    start = int(source.choice(session.candidates.tolist()))
    session.value(start)
    return start
