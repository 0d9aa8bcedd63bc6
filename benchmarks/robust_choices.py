"""What planner robust chooses against everything it evaluates, searched with the compiled simulation: decision 0022.

45 problems of Kairos's setting; four minutes on two cores. Short runs of one seed find the best of all candidates; it,
what was chosen, the paper's pick and the best single type are then measured as reported figures are. Writes
docs/results/planning/robust_choices.json, which benchmarks.planning_report shows, when all models are asked for.

Run: .venv/bin/python -m benchmarks.robust_choices [MODEL...]
"""

from __future__ import annotations

import dataclasses
import json
import statistics
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.kairos.paper.setting import MODELS, Case, problem, short

from hetserve.dispatch import make_policy
from hetserve.dispatch.lp import fluid_bound
from hetserve.planning import Counts, Problem
from hetserve.planning.kairos.planner import plan_kairos
from hetserve.planning.robust.candidates import is_homogeneous
from hetserve.planning.robust.planner import plan_robust
from hetserve.profiles import Spread, TableProfile
from hetserve.simulation import Confident, Criterion, System, allowable_throughput, steady_per_seed
from hetserve.simulation.stability import ceiling

QUERIES, SEEDS = 100_000, (11, 12, 13)
SEARCH_QUERIES, SEARCH_SEED = 20_000, 3
_CLOSE = 0.98
RESULT = Path(__file__).parents[1] / "docs" / "results" / "planning" / "robust_choices.json"
VARIANTS: tuple[tuple[dict[str, Any], float], ...] = (
    *(({"budget": budget}, 0.0) for budget in ("2.5", "5", "10")),
    ({"slo_factor": 1.2}, 0.0),
    *(({"batches": f"normal:{mix}"}, 0.0) for mix in ("165,16", "250,100", "500,150")),
    ({}, 0.05),
    ({}, 0.1),
)


def posed(model: str, fields: dict[str, Any], noise: float) -> Problem:
    """The problem with any base; noise: coefficient of variation of every latency, 0 for the measured one."""
    given = dataclasses.replace(problem(Case(model, **fields)), base=None)
    if not noise:
        return given
    options = []
    for option in given.types:
        profile = option.profile
        assert isinstance(profile, TableProfile)
        spreads = (Spread.of_variation(noise),) * len(profile.batches)
        options.append(dataclasses.replace(option, profile=dataclasses.replace(profile, spreads=spreads)))
    return dataclasses.replace(given, types=tuple(options))


@dataclass(frozen=True, slots=True)
class _Runs:
    queries: int
    seeds: tuple[int, ...]
    criterion: Criterion


@dataclass(frozen=True, slots=True)
class Measuring:
    """Rates of one problem's configurations under policy hetserve."""

    given: Problem
    system: System

    @classmethod
    def of(cls, given: Problem) -> Measuring:
        profiles = {option.name: option.profile for option in given.types}
        return cls(given, System.of(profiles, given.mix.batches, given.slo.latency))

    def fluid(self, counts: Counts) -> float:
        held = dict(counts)
        return fluid_bound(self.system.predicted, [held[name] for name in self.system.types], self.given.mix).rate

    def best(self, bounds: Mapping[Counts, float], first: Counts) -> Counts:
        """The best of these on short runs, from the one given on: another is searched only where it passes near the
        best so far."""
        best, top = first, self._search(first, bounds[first], 0.01)
        for counts, bound in bounds.items():
            if counts != first and bound > top * _CLOSE and self._search(counts, top * _CLOSE, 0.5) >= top * _CLOSE:
                rate = self._search(counts, bound, 0.01)
                best, top = (counts, rate) if rate > top else (best, top)
        return best

    def _search(self, counts: Counts, start: float, step: float) -> float:
        return self._scan(counts, start, step, _Runs(SEARCH_QUERIES, (SEARCH_SEED,), steady_per_seed()))

    def reported(self, counts: Counts, bound: float) -> float:
        """Allowable rate as figures are reported: from what short runs allow, on long ones of three seeds."""
        near = self._search(counts, bound, 0.01)
        return self._scan(counts, near, 0.005, _Runs(QUERIES, SEEDS, Confident())) if near else 0.0

    def _scan(self, counts: Counts, start: float, step: float, runs: _Runs) -> float:
        return allowable_throughput(
            self.system,
            dict(counts),
            make_policy("hetserve"),
            self.given.mix,
            start,
            seeds=runs.seeds,
            queries=runs.queries,
            step=step,
            criterion=runs.criterion,
            ceiling=ceiling(self.system, dict(counts), self.given.mix),
        ).rate


def outcome(model: str, fields: dict[str, Any], noise: float) -> dict[str, Any]:
    """What was chosen against the rest, and against the best single type."""
    given = posed(model, fields, noise)
    plan, paper = plan_robust(given), plan_kairos(given)
    measuring = Measuring.of(given)
    bounds = {e.candidate.counts: float(e.candidate.qps) for e in plan.evaluated}
    best = measuring.best(bounds, plan.counts)
    singles = [e for e in plan.evaluated if is_homogeneous(e.candidate.counts)]
    alone = max(singles, key=lambda e: e.held).candidate.counts if singles else plan.counts
    rates = {counts: measuring.reported(counts, bounds[counts]) for counts in {plan.counts, paper.counts, best, alone}}
    ours, theirs, single = (rates[counts] for counts in (plan.counts, paper.counts, alone))
    top = max(rates, key=lambda counts: rates[counts])
    return {
        "model": model,
        "problem": ", ".join([*(f"{k} {v}" for k, v in fields.items()), *([f"noise {noise:.0%}"] if noise else [])]),
        "chosen": short(plan.counts),
        "qps": ours,
        "fluid": measuring.fluid(plan.counts),
        "paper": short(paper.counts),
        "overPaper": ours / theirs if theirs else 1.0,
        "best": short(top),
        "overBest": ours / rates[top],
        "overSingle": ours / single if single else 1.0,
    }


def show(row: dict[str, Any]) -> None:
    print(
        f"{row['model']:7} {row['problem']:24} {row['chosen']} {row['qps']:8.5g} q/s of {row['fluid']:8.5g}, paper "
        f"{row['overPaper']:.3f} x {row['paper']}, best {row['overBest']:.3f} x {row['best']}",
        flush=True,
    )


def main() -> None:
    asked = [(model, *variant) for model in sys.argv[1:] or MODELS for variant in VARIANTS]
    rows = []
    with ThreadPoolExecutor(2) as pool:
        for row in pool.map(lambda one: outcome(*one), asked):
            rows.append(row)
            show(row)
    wins, mean = sum(row["overBest"] > 0.999 for row in rows), statistics.fmean(row["overBest"] for row in rows)
    print(f"best of its candidates in {wins} of {len(rows)} problems, on average {mean:.4f} of the best")
    singles = min(row["overSingle"] for row in rows)
    print(f"least over the paper's pick {min(r['overPaper'] for r in rows):.3f}, over a single type {singles:.3f}")
    if not sys.argv[1:]:
        whole = {"queries": QUERIES, "seeds": SEEDS, "leastOverSingle": singles, "problems": rows}
        RESULT.parent.mkdir(parents=True, exist_ok=True)
        RESULT.write_text(json.dumps(whole, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
