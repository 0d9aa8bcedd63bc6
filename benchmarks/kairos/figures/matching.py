"""How many waiting queries Kairos's matching looks at: the first 2 n, fewer, or all."""

from __future__ import annotations

import statistics
from dataclasses import replace
from typing import Final

from benchmarks.kairos.evaluation.measure import Scale, allowable, bound_of, in_parallel
from benchmarks.kairos.paper.setting import MODELS, Case, kairos_plan
from benchmarks.kairos.report.results import qps
from benchmarks.reporting import Json, table

from hetserve.dispatch import make_policy
from hetserve.dispatch.kairos import WINDOW

TITLE: Final = "The window of the matching: the first 2 n queries, or all"

_ALL: Final = 1e5
"""Queries per instance: more than ever wait."""
_WINDOWS: Final = {"n": 1.0, "2 n": WINDOW, "4 n": 4.0, "all": _ALL}


def used(scale: Scale) -> Scale:
    """20,000 queries and one seed, unless in full."""
    return scale if scale.full else replace(scale, queries=20_000, seeds=scale.seeds[:1])


def measure(scale: Scale) -> Json:
    scale = used(scale)
    jobs = [(model, label) for model in MODELS for label in _WINDOWS]
    rates = in_parallel(lambda job: _rate(*job, scale), jobs, scale)
    return {
        model: {label: rate for (m, label), rate in zip(jobs, rates, strict=True) if m == model} for model in MODELS
    }


def _rate(model: str, label: str, scale: Scale) -> float:
    case = Case(model)
    counts = kairos_plan(case).counts
    policy = make_policy("kairos", window=_WINDOWS[label])
    return allowable(case, counts, policy, bound_of(case, counts), scale).mean


def describe(data: Json) -> str:
    rows = [
        [label, *(f"{qps(data[m][label])} ({data[m][label] / data[m]['2 n']:.3f})" for m in data)] for label in _WINDOWS
    ]
    gain = statistics.geometric_mean(entry["all"] / entry["2 n"] for entry in data.values())
    return (
        "Allowable throughput at Kairos's configuration, n instances; in brackets over that of 2 n.\n\n"
        + table(["queries looked at", *data], rows)
        + f"\nAll over 2 n: geometric mean {gain:.3f}.\n"
    )
