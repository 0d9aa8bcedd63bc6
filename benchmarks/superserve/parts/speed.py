"""Queries that the joining loop simulates each second on one core."""

from __future__ import annotations

import statistics
import time
from typing import Final

from benchmarks.reporting import Json
from benchmarks.superserve.results import Row, rows
from benchmarks.superserve.setting import bursty, play, policy, system

TITLE: Final = "Speed"
GOAL: Final = 3e6
POLICIES: Final = ("max-batch", "slackfit", "rate-fit", "max-accuracy", "infaas", "coarse")


def measure(quick: bool) -> Json:
    times, rounds = bursty(6402.0, 4.0, 5.0 if quick else 30.0), 2 if quick else 5
    taken: dict[str, list[float]] = {name: [] for name in POLICIES}
    for _ in range(rounds + 1):
        for name in POLICIES:
            start = time.process_time()
            play(policy(name), times, system())
            taken[name].append(time.process_time() - start)
    return {name: len(times) / statistics.median(each[1:]) for name, each in taken.items()}


def describe(data: Json) -> str:
    return (
        "Processor time of a whole run, its set-up included: 6402 queries/s, CV2 4, eight instances, 30 s; medians of "
        "rounds by turns.\n\n"
        + rows(
            Row(f"{name} [million queries/s]", "", "goal >= 3", f"{rate / 1e6:.1f}", rate >= GOAL)
            for name, rate in data.items()
        )
    )
