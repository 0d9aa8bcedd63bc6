"""The learner in the simulation: profiles 30 % wrong, predictions learnt from the queries that ended."""

from __future__ import annotations

import statistics
from dataclasses import replace
from typing import Final

from benchmarks.kairos.evaluation.learner import late_share
from benchmarks.kairos.evaluation.measure import Rate, Scale, allowable, bound_of, in_parallel
from benchmarks.kairos.paper.setting import MODELS, Case, kairos_plan, system
from benchmarks.kairos.report.results import qps
from benchmarks.reporting import Json, table, verdict

from hetserve.dispatch import make_policy
from hetserve.planning import Counts
from hetserve.simulation.workload import draw_workload

TITLE: Final = "The learner: profiles 30 % wrong"

WRONG: Final = 0.3
LEARNING: Final = 2000
"""First queries that do not count."""
_GOAL: Final = 0.97
_STEP: Final = 0.005
_TOP: Final = 1.02
_QUERIES: Final = 20_000
"""Ten times those of learning: later ones teach nothing new."""


def used(scale: Scale) -> Scale:
    """RM2 and one seed, unless in full."""
    return replace(scale, queries=_QUERIES, seeds=scale.seeds if scale.full else scale.seeds[:1])


def measure(scale: Scale) -> Json:
    scale = used(scale)
    jobs = [(model, name) for model in (MODELS if scale.full else ("RM2",)) for name in ("kairos", "hetserve")]
    found = in_parallel(lambda job: _measure_one(*job, scale), jobs, scale)
    return {f"{model} {name}": entry for (model, name), entry in zip(jobs, found, strict=True)}


def _measure_one(model: str, name: str, scale: Scale) -> Json:
    true, wrong, policy = Case(model), Case(model, wrong=WRONG), make_policy(name)
    counts = kairos_plan(true).counts
    bound = bound_of(true, counts)
    truth = allowable(true, counts, policy, bound, scale)
    return {
        "truth": truth.as_json(),
        "wrong": allowable(wrong, counts, policy, bound, scale).as_json(),
        "learnt": _learning_rate(wrong, counts, name, truth, scale, LEARNING),
        "learntAll": _learning_rate(wrong, counts, name, truth, scale, 0),
    }


def _learning_rate(case: Case, counts: Counts, name: str, truth: Rate, scale: Scale, after: int) -> float:  # noqa: PLR0917
    """Allowable rate [queries/s] of the queries after the first `after`: mean of the seeds."""
    pool, policy = system(case), make_policy(name)

    def of_seed(top: float, seed: int) -> float:
        work = draw_workload(case.mix, scale.queries, seed)
        rates = (top * (_TOP - k * _STEP) for k in range(int(_TOP / _STEP)))
        late = ((r, late_share(pool, dict(counts), policy, work, r, after=after, allowed=0.01)) for r in rates)
        return next((rate for rate, share in late if share <= 0.01), 0.0)

    return statistics.fmean(map(of_seed, truth.seeds, scale.seeds))


def describe(data: Json) -> str:
    rows = []
    for name, entry in data.items():
        truth = entry["truth"]["qps"]
        rows.append(
            [
                name,
                qps(truth),
                f"{entry['wrong']['qps'] / truth:.2f}",
                f"{entry['learnt'] / truth:.3f}",
                f"{entry['learntAll'] / truth:.3f}",
            ]
        )
    held = all(data[name]["learnt"] >= _GOAL * data[name]["truth"]["qps"] for name in data if name.startswith("RM2"))
    head = ["model and policy", "true profile, q/s", "wrong profile", "wrong, learning", "the same, all queries count"]
    return (
        "At Kairos's configuration. The policy believes means that are off by a normal error of 30 %, by type and "
        "batch. It learns as the paper does: a line, then from 10 queries on a batch's own mean. It learns after 20 "
        "queries, then whenever a tenth more have ended. Shares are of the true profile's rate; the first 2,000 "
        "queries count only in the last column, which includes the cost of learning. "
        "At most 1 % of what counts may be late; without learning, `hetserve` must also be stable.\n\n"
        + table(head, rows)
        + f"\n- At least {_GOAL} of the true rate after {LEARNING:,} queries of RM2: {verdict(held)}.\n"
    )
