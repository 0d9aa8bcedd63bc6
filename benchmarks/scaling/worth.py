"""Dollars and late queries of ten days: the policy, a clairvoyant and a HorizontalPodAutoscaler."""

from __future__ import annotations

import os
import statistics
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from typing import Final

from benchmarks.reporting import Json, table, verdict
from benchmarks.scaling.autoscalers import Autoscalers
from benchmarks.scaling.days import days
from benchmarks.scaling.rivals import clairvoyant_dollars

from hetserve.api.manifests import read_manifests
from hetserve.base.units import QPS, Seconds
from hetserve.demand.trace import LoadTrace
from hetserve.planning import Problem, build_problem
from hetserve.scaling import ScalingRules
from hetserve.scaling.plans.answers import Answers
from hetserve.scaling.replay.arrivals import arrivals_of
from hetserve.scaling.replay.following import Playing, Setting, follow
from testing.data import REPOSITORY

TITLE: Final = "Worth: ten days of load"
LAUNCH: Final = Seconds(60.0)
ALLOWED: Final = 0.01
_SEED: Final = 1


def service(launch: Seconds = LAUNCH) -> Problem:
    """RM2 of the samples, at the least cost. launch: until a new instance serves [s]."""
    read = read_manifests((str(REPOSITORY / "manifests" / "samples" / "rm2.yaml"),))
    built = build_problem(read.services[0], read.types, read.profiles, load=QPS(1.0))
    assert isinstance(built, Problem)
    types = tuple(replace(option, launch_time=launch) for option in built.types)
    return replace(built, objective="MinCost", types=types, budget=None, load=None, planner=None)


_HEAD: Final = """RM2 of the samples at the least cost, up to 60 queries/s; instances launch in 60 s. Queries go through
the dispatch policy in the joint simulation. The clairvoyant pays the cheapest plan of each minute, and its launches. It
moves with every minute and keeps the wanted saturation always, which the policy may exceed by the tolerance: so it can
be the dearer one. The HorizontalPodAutoscaler has the single type, the target (queries/s of an instance) and the
window before scale-down (60, 150, 300 or 600 s) that cost least with at most 1 % late, else the defaults of `behavior`.
Targets go up in steps of 5 % of what an instance serves without a pause for as long as they keep 1 %. The last columns:
the same with no more late queries than the policy has.
"""


def measure(quick: bool) -> Json:
    """Ten days, or one."""
    names = list(days())[:1] if quick else list(days())
    with ProcessPoolExecutor(min(len(names), os.cpu_count() or 1)) as pool:
        return {"days": list(pool.map(followed, names))}


def followed(name: str) -> Json:
    """One day, by its name."""
    problem, rules, trace, ask = service(), ScalingRules(), days()[name], Answers()
    found = compared(problem, rules, trace, ask, _SEED)
    known = clairvoyant_dollars(problem, rules, trace, ask)
    return {"day": name, **found, "questions": ask.questions, "clairvoyant": known}


def compared(problem: Problem, rules: ScalingRules, trace: LoadTrace, ask: Answers, seed: int) -> Json:
    """The policy over a trace, and HorizontalPodAutoscalers: within what may be late, and no later than the policy."""
    arrived = arrivals_of(trace, seed)
    course = follow(Setting(problem, rules), arrived, ask, playing=Playing(seed + 1))
    served = course.served
    assert served is not None
    rivals = Autoscalers(problem, arrived, seed + 1)
    return {
        "queries": served.queries,
        "dollars": course.dollars,
        "late": served.late_share,
        "changes": len(course.changes) - 1,
        "autoscaler": rivals.cheapest(ALLOWED),
        "as_seldom_late": rivals.cheapest(served.late_share),
    }


def describe(data: Json) -> str:
    rows = [
        (
            day["day"],
            f"{day['dollars']:.2f}",
            f"{_over(day):+.1%}",
            f"{day['late']:.2%}",
            day["changes"],
            day["questions"],
            *beside(day["autoscaler"]),
            *beside(day["as_seldom_late"])[:2],
        )
        for day in data["days"]
    ]
    ours = ("day", "$", "over the clairvoyant", "late", "changes", "questions")
    head = (*ours, "HPA $", "HPA late", "HPA settings", "HPA no later $", "late")
    return "\n".join(
        [
            _HEAD,
            table(head, rows),
            table(("what", "goal", "figure", ""), _goals(data["days"])),
        ]
    )


def _goals(measured: list[Json]) -> list[tuple[str, str, str, str]]:
    over, late = max(map(_over, measured)), max(day["late"] for day in measured)
    cheaper, no_later = dearer_than("autoscaler", measured), dearer_than("as_seldom_late", measured)
    later = max((day["late"] - day["autoscaler"]["late"] for day in measured if day["autoscaler"]), default=0.0)
    middle, most = statistics.median(cheaper), max(cheaper)
    return [
        ("dollars over the clairvoyant", "<= 15 %", f"{over:+.1%} at most", verdict(over <= 0.15)),
        ("late queries", "<= 1 %", f"{late:.2%} at most", verdict(late <= ALLOWED)),
        ("dollars beside the HPA, median", "< 0", f"{middle:+.1%}", verdict(middle < 0)),
        ("dollars beside the HPA, any day", "<= +5 %", f"{most:+.1%} at most", verdict(most <= 0.05)),
        ("late queries beside the HPA", "<= 0", f"{later:+.2%} at most", verdict(later <= 0)),
        ("dollars beside an HPA that is no later, any day", "< 0", *_most_of(no_later)),
    ]


def dearer_than(rival: str, measured: list[Json]) -> list[float]:
    """Dollars of the policy as a share of a rival's, less 1, where there is such a rival."""
    return [one["dollars"] / one[rival]["dollars"] - 1 for one in measured if one[rival]]


def _most_of(shares: list[float]) -> tuple[str, str]:
    if not shares:
        return "there is none", verdict(True)
    return f"{max(shares):+.1%} at most", verdict(max(shares) < 0)


def _over(day: Json) -> float:
    return float(day["dollars"] / day["clairvoyant"] - 1)


def beside(autoscaler: Json) -> tuple[str, str, str]:
    """Dollars, late queries, and target and window of a HorizontalPodAutoscaler, in words."""
    if not autoscaler:
        return "none", "-", "-"
    settings = f"{autoscaler['target']:.1f}, {autoscaler['window']:g} s"
    return f"{autoscaler['dollars']:.2f}", f"{autoscaler['late']:.2%}", settings
