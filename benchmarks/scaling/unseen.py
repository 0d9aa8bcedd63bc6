"""Dollars and late queries of loads that nothing was chosen by: other shapes, other seeds, other launch times."""

from __future__ import annotations

import os
import statistics
from concurrent.futures import ProcessPoolExecutor
from itertools import pairwise
from typing import Final

import numpy as np
from benchmarks.reporting import Json, table, verdict
from benchmarks.scaling.days import PEAK, Floats, trace_of
from benchmarks.scaling.worth import beside, compared, dearer_than, service

from hetserve.base.units import Seconds
from hetserve.scaling import ScalingRules
from hetserve.scaling.plans.answers import Answers

TITLE: Final = "Worth: loads that nothing was chosen by"
LAUNCHES: Final = (Seconds(30.0), Seconds(120.0), Seconds(300.0))
_MINUTES: Final = 6 * 60
_PART: Final = 30
"""Minutes of a level."""

_HEAD: Final = """Six hours each, of random levels, ramps, bursts, wandering and batches, each beginning without an
instance, with launch times of 30 s, 2 and 5 minutes. Neither the policy nor its defaults were changed by what came out.
Loads that jump within less than a launch time are late for it whoever follows them. So the policy is compared with the
cheapest HorizontalPodAutoscaler that has no more late queries than it.
"""


def measure(quick: bool) -> Json:
    """Each shape at each launch time, or one."""
    cases = [(name, launch) for launch in LAUNCHES for name in loads(0)]
    with ProcessPoolExecutor(os.cpu_count() or 1) as pool:
        return {"loads": list(pool.map(_followed, cases[:1] if quick else cases))}


def _followed(case: tuple[str, Seconds]) -> Json:
    name, launch = case
    seed = round(100 + launch)
    found = compared(service(launch), ScalingRules(), trace_of(loads(seed)[name]), Answers(), seed)
    return {"load": name, "launch": launch, **found}


def loads(seed: int) -> dict[str, Floats]:
    """Rates of each minute [queries/s], by name."""
    chance = np.random.default_rng(seed)
    levels = chance.uniform(0.12, 1.0, _MINUTES // _PART + 1)
    return {
        "levels": PEAK * np.repeat(levels[1:], _PART),
        "ramps": PEAK * _ramps(levels, chance),
        "bursts": PEAK * _bursts(chance),
        "wandering": PEAK * _wandering(chance),
        "batches": PEAK * _batches(chance),
    }


def _ramps(levels: Floats, chance: np.random.Generator) -> Floats:
    """From level to level, in three to eleven minutes."""
    parts = []
    for before, after in pairwise(levels):
        share = np.minimum(np.arange(_PART) / int(chance.integers(3, 12)), 1.0)
        parts.append(before + (after - before) * share)
    return np.concatenate(parts)


def _bursts(chance: np.random.Generator) -> Floats:
    """Three, that rise in one to four minutes and fade."""
    rates: Floats = np.full(_MINUTES, 0.2)
    for begin in (60, 180, 290):
        since, rise = np.arange(_MINUTES) - begin, int(chance.integers(1, 5))
        burst = np.minimum((since + 1) / rise, 1.0) * np.exp(-np.maximum(since - rise, 0) / 25)
        rates += np.where(since < 0, 0.0, chance.uniform(0.3, 0.8) * burst)
    return rates


def _wandering(chance: np.random.Generator) -> Floats:
    values = np.zeros(_MINUTES)
    for minute in range(1, _MINUTES):
        values[minute] = 0.995 * values[minute - 1] + 0.05 * chance.standard_normal()
    wandering: Floats = np.clip(0.45 * np.exp(values), 0.08, 1.0)
    return wandering


def _batches(chance: np.random.Generator) -> Floats:
    """A third of each period is high."""
    period = int(chance.integers(20, 50))
    high = np.arange(_MINUTES) % period < period // 3
    batches: Floats = np.where(high, chance.uniform(0.5, 0.9), chance.uniform(0.15, 0.3))
    return batches


def describe(data: Json) -> str:
    rows = [
        (
            one["load"],
            f"{one['launch']:g} s",
            f"{one['dollars']:.2f}",
            f"{one['late']:.2%}",
            one["changes"],
            *beside(one["as_seldom_late"]),
        )
        for one in data["loads"]
    ]
    head = ("load", "launch", "$", "late", "changes", "HPA no later $", "late", "settings")
    dearer = dearer_than("as_seldom_late", data["loads"])
    middle, none = statistics.median(dearer or [-1.0]), sum(not one["as_seldom_late"] for one in data["loads"])
    figure = f"{middle:+.1%}, {max(dearer, default=-1.0):+.1%} at most; {none} of {len(rows)} have none"
    goal = ("dollars beside an HPA that is no later, median", "< 0", figure, verdict(middle < 0))
    return "\n".join([_HEAD, table(head, rows), table(("what", "goal", "figure", ""), [goal])])
