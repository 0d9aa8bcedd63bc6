"""Rules that look right and do not hold, each beside what the joint simulation says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from benchmarks.reporting import Json
from benchmarks.sharing.results import goals
from benchmarks.sharing.tenants import PERCENTILE, Tenant, met

TITLE: Final = "Traps"
_WORDS: Final = """One GPU, one instance per service, Poisson arrivals; loads are of what each serves alone. "Stable
while the loads x u sum to less than 1" is false, as the first two show. The last shows what a rule costs that knows
nobody's load: at the default tolerance of 1.75 two of the four share a GPU.
"""


def equal(n: int, share: float, c: float = 0.0) -> list[Tenant]:
    return [Tenant(f"t{k}", share, otherwise=c) for k in range(n)]


def measure(quick: bool) -> Json:
    queries = 3_000 if quick else 40_000
    return {
        "two": _play([Tenant("whole", 1.0), Tenant("half", 0.5)], [0.5, 0.9], queries),
        "six": _play(equal(6, 0.2, 0.1), [0.8] * 6, queries),
        "four": _play(equal(4, 0.8), [0.2] * 4, queries),
    }


def _play(tenants: Sequence[Tenant], loads: Sequence[float], queries: int) -> Json:
    reports = met(tenants, loads, queries)
    return {
        "used": sum(tenant.share * load for tenant, load in zip(tenants, loads, strict=True)),
        "grows": [report.unstable for report in reports],
        "latency": [report.latencies[PERCENTILE] for report in reports],
        "most": max(report.stretch.most for report in reports),
    }


def describe(data: Json) -> str:
    two, six, four = (data[name] for name in ("two", "six", "four"))
    cases = (
        ("u 1 and .5 at loads .5 and .9", "the second diverges", two, two["grows"] == [False, True]),
        ("six of u .2, c .1, at load .8", "all diverge", six, all(six["grows"])),
        ("four of u .8 at load .2", "hold, p98 about 6 service times", four, not any(four["grows"])),
    )
    return _WORDS + "\n" + goals([(what, goal, _figure(case), held) for what, goal, case, held in cases])


def _figure(case: Json) -> str:
    grown, highest = sum(case["grows"]), max(case["latency"])
    return (
        f"loads x u {case['used']:.2f}; {grown} of {len(case['grows'])} diverge; "
        f"stretch up to {case['most']:.2f}" + ("" if grown else f"; p98 {highest:.1f}")
    )
