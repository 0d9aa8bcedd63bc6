"""Every time limit of the tests [s], scaled by how slow this machine is now.

A limit bounds what ends by an event: a condition that holds, a process that ends, an answer. It is wide enough for a
busy machine, and no promise: what is promised in seconds is measured by a benchmark or holds in virtual time.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Final

SLOWNESS_VARIABLE: Final = "HETSERVE_TEST_SLOWNESS"
"""Times as long as the machine of reference takes; one run measures it once, and its processes read it."""
LOOPS: Final = 400_000
REFERENCE: Final = 0.02
"""Seconds of so many rounds on the machine that the limits were set on (2 cores, Intel Xeon), otherwise idle."""
ROUNDS: Final = 9
LEAST: Final = 1.0
MOST: Final = 6.0


def measured(clock: Callable[[], float] = time.perf_counter) -> float:
    """How many times as long as on the machine of reference a fixed loop takes now: the mean, as others may share a
    core for a part of it; between `LEAST` and `MOST`.
    """
    begun = clock()
    for _ in range(ROUNDS):
        total = 0
        for number in range(LOOPS):
            total += number & 7
    return min(max((clock() - begun) / (ROUNDS * REFERENCE), LEAST), MOST)


def slowness() -> float:
    """As measured by the first who asked in this run."""
    if SLOWNESS_VARIABLE not in os.environ:
        os.environ[SLOWNESS_VARIABLE] = f"{measured():.2f}"
    return float(os.environ[SLOWNESS_VARIABLE])


def slower_by_now() -> float:
    """How many times as slow as at the start of the run, at least 1: other work may have begun since."""
    return max(measured() / slowness(), 1.0)


_SLOWNESS: Final = slowness()

# What a scenario waits for.
ANSWER: Final = 20 * _SLOWNESS
"""A process answers a request, or does one thing that it was asked for."""
REACTION: Final = 60 * _SLOWNESS
"""A component notices a change and acts."""
ROLLOUT: Final = 120 * _SLOWNESS
"""Instances are planned, created, placed and ready; or gone."""
CROWD: Final = 240 * _SLOWNESS
"""The same of hundreds of pods, or of a whole installation."""
PLANNED: Final = 240 * _SLOWNESS
"""The same, and every tried plan has taken the place of a provisional one: one whose process is ended begins anew."""

# Programs that are called.
COMMAND: Final = 120 * _SLOWNESS
"""One command: kubectl, helm, hetserve, or another Python."""
SESSION: Final = 360 * _SLOWNESS
"""All commands of a page, or a demo from nothing to its end."""

# Tests, by their markers.
TEST: Final = 300 * _SLOWNESS
LONG_TEST: Final = 600 * _SLOWNESS
LONGEST_TEST: Final = 900 * _SLOWNESS
