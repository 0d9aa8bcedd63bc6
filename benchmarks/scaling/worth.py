"""Dollars and late queries of ten days: the policy, a clairvoyant and a HorizontalPodAutoscaler.

`python -m benchmarks.scaling.worth [--days 2] [--workers 2]` measures and writes docs/results/scaling/worth.json.
"""

from __future__ import annotations

import argparse
import statistics
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from typing import Final

import numpy as np
from benchmarks.reporting import Json, Kept, machine, table, verdict
from benchmarks.scaling.days import days
from benchmarks.scaling.rivals import HorizontalPodAutoscaler, clairvoyant_dollars, targets

from hetserve.api.manifests import read_manifests
from hetserve.base.units import QPS, Seconds
from hetserve.planning import Problem, build_problem
from hetserve.planning.slo import serves_whole_mix
from hetserve.scaling import ScalingRules
from hetserve.scaling.answers import Answers
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


def measure(name: str) -> Json:
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
            f"{day['dollars'] / day['clairvoyant'] - 1:+.1%}",
            f"{day['late']:.2%}",
            day["changes"],
            f"{day['autoscaler']['dollars']:.2f}" if day["autoscaler"] else "none keeps it",
            f"{day['autoscaler']['late']:.2%}" if day["autoscaler"] else "-",
        )
        for day in data["days"]
    ]
    over = [day["dollars"] / day["clairvoyant"] - 1 for day in data["days"]]
    beside = [day["dollars"] / day["autoscaler"]["dollars"] - 1 for day in data["days"] if day["autoscaler"]]
    late = max(day["late"] for day in data["days"])
    lines = [
        table(("day", "$", "over the clairvoyant", "late", "changes", "HPA $", "HPA late"), rows),
        f"- Dollars within 15 % of a clairvoyant: {max(over):+.1%} at most: {verdict(max(over) <= 0.15)}.",
        f"- At most 1 % late: {late:.2%} at most: {verdict(late <= ALLOWED)}.",
    ]
    if beside:
        middle = statistics.median(beside)
        said = f"{middle:+.1%} in the median, {max(beside):+.1%} at most"
        lines.append(
            f"- Cheaper in the median than the best HorizontalPodAutoscaler, never 5 % dearer: {said}: "
            f"{verdict(middle < 0 and max(beside) <= 0.05)}."
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--days", type=int, default=10, help="how many of the ten")
    parser.add_argument("--workers", type=int, default=2, help="processes")
    options = parser.parse_args()
    with ProcessPoolExecutor(options.workers) as pool:
        measured = []
        for one in pool.map(measure, list(days())[: options.days]):
            print(one, flush=True)
            measured.append(one)
    if options.days >= len(days()):
        Kept("scaling").save("worth", {"machine": machine("numpy", "numba")}, {"days": measured})
    print(describe({"days": measured}))


if __name__ == "__main__":
    main()
