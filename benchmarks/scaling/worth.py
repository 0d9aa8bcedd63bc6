"""Dollars and late queries of ten days: the policy, a clairvoyant and a HorizontalPodAutoscaler."""

from __future__ import annotations

import os
import statistics
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from typing import Final

import numpy as np
from benchmarks.reporting import Json, table, verdict
from benchmarks.scaling.days import days
from benchmarks.scaling.rivals import HorizontalPodAutoscaler, clairvoyant_dollars, targets

from hetserve.api.manifests import read_manifests
from hetserve.base.units import QPS, Seconds
from hetserve.planning import Problem, build_problem
from hetserve.planning.slo import serves_whole_mix
from hetserve.scaling import ScalingRules
from hetserve.scaling.plans.answers import Answers
from hetserve.scaling.replay import Fleet, Setting, arrivals_of, follow, serve
from hetserve.scaling.replay.arrivals import Arrived
from hetserve.scaling.replay.following import run
from hetserve.testing.data import REPOSITORY

TITLE: Final = "Worth: ten days of load"
LAUNCH: Final = Seconds(60.0)
ALLOWED: Final = 0.01
_SHARES: Final = np.array([0.95, 0.9, 0.85, 0.8, 0.75, 0.7, 0.65, 0.6, 0.5, 0.4, 0.3])
_SEED: Final = 1


def service() -> Problem:
    """RM2 of the samples, at the least cost; instances launch in 60 s."""
    read = read_manifests((str(REPOSITORY / "manifests" / "samples" / "rm2.yaml"),))
    built = build_problem(read.services[0], read.types, read.profiles, load=QPS(1.0))
    assert isinstance(built, Problem)
    types = tuple(replace(option, launch_time=LAUNCH) for option in built.types)
    return replace(built, objective="MinCost", types=types, budget=None, load=None, planner=None)


_HEAD: Final = """RM2 of the samples at the least cost, up to 60 queries/s; instances launch in 60 s. Queries go through
the dispatch policy in the joint simulation. The clairvoyant pays the cheapest plan of each minute, and its launches. It
moves with every minute and keeps the wanted saturation always, which the policy may exceed by the tolerance: so it can
be the dearer one. The HorizontalPodAutoscaler has the single type and the target (queries/s of an instance) that cost
least with at most 1 % late, and the defaults of `behavior`.
"""


def measure(quick: bool) -> Json:
    """Ten days, or one."""
    names = list(days())[:1] if quick else list(days())
    with ProcessPoolExecutor(min(len(names), os.cpu_count() or 1)) as pool:
        return {"days": list(pool.map(followed, names))}


def followed(name: str) -> Json:
    """One day, by its name."""
    problem, rules, trace = service(), ScalingRules(), days()[name]
    arrived, ask = arrivals_of(trace, _SEED), Answers()
    began = time.perf_counter()
    course = follow(Setting(problem, rules), arrived, ask)
    decided = time.perf_counter() - began
    served = serve(problem, arrived, course.fleet.spans, _SEED + 1)
    known = clairvoyant_dollars(problem, rules, trace, ask)
    return {
        "day": name,
        "queries": served.queries,
        "dollars": course.dollars,
        "late": served.late_share,
        "changes": len(course.changes) - 1,
        "questions": ask.questions,
        "seconds": decided,
        "clairvoyant": known,
        "autoscaler": best_autoscaler(problem, arrived),
    }


def best_autoscaler(problem: Problem, arrived: Arrived) -> Json:
    """The cheapest HorizontalPodAutoscaler, over single types and targets, that keeps enough queries in time."""
    found: list[Json] = []
    for option in (o for o in problem.types if serves_whole_mix(o, problem, problem.slo.percentile)):
        for target in targets(problem, option.name, _SHARES):
            fleet = Fleet(problem.types)
            run(HorizontalPodAutoscaler(problem, option.name, target), fleet, arrived)
            late = serve(problem, arrived, fleet.spans, _SEED + 1).late_share
            if late <= ALLOWED:
                dollars = fleet.dollars(arrived.begin, arrived.end)
                found.append({"type": option.name, "target": target, "dollars": dollars, "late": late})
                break
    return min(found, key=lambda one: one["dollars"], default={})


def describe(data: Json) -> str:
    rows = [
        (
            day["day"],
            f"{day['dollars']:.2f}",
            f"{_over(day):+.1%}",
            f"{day['late']:.2%}",
            day["changes"],
            day["questions"],
            *_beside(day["autoscaler"]),
        )
        for day in data["days"]
    ]
    head = ("day", "$", "over the clairvoyant", "late", "changes", "questions", "HPA $", "HPA late", "HPA target")
    return "\n".join(
        [
            _HEAD,
            table(head, rows),
            table(("what", "goal", "figure", ""), _goals(data["days"])),
        ]
    )


def _goals(measured: list[Json]) -> list[tuple[str, str, str, str]]:
    over, late = max(map(_over, measured)), max(day["late"] for day in measured)
    beside = [day["dollars"] / day["autoscaler"]["dollars"] - 1 for day in measured if day["autoscaler"]]
    later = max((day["late"] - day["autoscaler"]["late"] for day in measured if day["autoscaler"]), default=0.0)
    middle, most = statistics.median(beside), max(beside)
    return [
        ("dollars over the clairvoyant", "<= 15 %", f"{over:+.1%} at most", verdict(over <= 0.15)),
        ("late queries", "<= 1 %", f"{late:.2%} at most", verdict(late <= ALLOWED)),
        ("dollars beside the HPA, median", "< 0", f"{middle:+.1%}", verdict(middle < 0)),
        ("dollars beside the HPA, any day", "<= +5 %", f"{most:+.1%} at most", verdict(most <= 0.05)),
        ("late queries beside the HPA", "<= 0", f"{later:+.2%} at most", verdict(later <= 0)),
    ]


def _over(day: Json) -> float:
    return float(day["dollars"] / day["clairvoyant"] - 1)


def _beside(autoscaler: Json) -> tuple[str, str, str]:
    if not autoscaler:
        return "none keeps 1 %", "-", "-"
    return f"{autoscaler['dollars']:.2f}", f"{autoscaler['late']:.2%}", f"{autoscaler['target']:.1f}"
