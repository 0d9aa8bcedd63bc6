"""What planner robust chooses against everything it evaluates, searched with the compiled simulation: decision 0022.

45 problems of Kairos's setting; half an hour on one core. Writes docs/results/planning/robust_choices.json, which
benchmarks.planning_report shows, when all models are asked for. Not one of `make bench`.

Run: .venv/bin/python -m benchmarks.robust_choices [MODEL...]
"""

from __future__ import annotations

import dataclasses
import json
import statistics
import sys
from pathlib import Path
from typing import Any

from benchmarks.kairos.setting import MODELS, Case, problem, short

from hetserve.dispatch import make_policy
from hetserve.planning import Counts, Problem
from hetserve.planning.kairos import plan_kairos
from hetserve.planning.robust import plan_robust
from hetserve.planning.robust_candidates import is_homogeneous
from hetserve.profiles import Spread, TableProfile
from hetserve.simulation import PerSeed, System, allowable_throughput

QUERIES, SEED = 20_000, 3
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


def held(given: Problem, counts: Counts, start: float) -> float:
    """Allowable rate under policy hetserve; start: where the scan begins."""
    profiles = {option.name: option.profile for option in given.types}
    system = System.of(profiles, given.mix.batches, given.slo.latency)
    policy, criterion = make_policy("hetserve"), PerSeed()
    found = allowable_throughput(
        system, dict(counts), policy, given.mix, start, seeds=(SEED,), queries=QUERIES, criterion=criterion
    )
    return found.rate


def outcome(model: str, fields: dict[str, Any], noise: float) -> tuple[dict[str, Any], float]:
    """What was chosen against the rest, and against the best single type."""
    given = posed(model, fields, noise)
    plan, paper = plan_robust(given), plan_kairos(given)
    start = {e.candidate.counts: min(e.candidate.qps, 2 * e.held or e.candidate.qps) for e in plan.evaluated}
    rates = {counts: held(given, counts, rate) for counts, rate in start.items()}
    best = max(rates, key=lambda counts: rates[counts])
    single = max((rate for counts, rate in rates.items() if is_homogeneous(counts)), default=0.0)
    ours, theirs = rates[plan.counts], rates[paper.counts]
    row = {
        "model": model,
        "problem": ", ".join([*(f"{k} {v}" for k, v in fields.items()), *([f"noise {noise:.0%}"] if noise else [])]),
        "chosen": short(plan.counts),
        "qps": ours,
        "paper": short(paper.counts),
        "overPaper": ours / theirs if theirs else 1.0,
        "best": short(best),
        "overBest": ours / rates[best],
    }
    return row, ours / single if single else 1.0


def main() -> None:
    rows, singles = [], []
    for model in sys.argv[1:] or MODELS:
        for fields, noise in VARIANTS:
            row, single = outcome(model, fields, noise)
            rows.append(row)
            singles.append(single)
            print(
                f"{model:7} {row['problem']:24} {row['chosen']} {row['qps']:8.5g} q/s, paper {row['overPaper']:.3f} x "
                f"{row['paper']}, best {row['overBest']:.3f} x {row['best']}",
                flush=True,
            )
    wins, mean = sum(row["overBest"] > 0.999 for row in rows), statistics.fmean(row["overBest"] for row in rows)
    print(f"best of its candidates in {wins} of {len(rows)} problems, on average {mean:.4f} of the best")
    print(f"least over the paper's pick {min(r['overPaper'] for r in rows):.3f}, over a single type {min(singles):.3f}")
    if not sys.argv[1:]:
        whole = {"queries": QUERIES, "seed": SEED, "leastOverSingle": min(singles), "problems": rows}
        RESULT.parent.mkdir(parents=True, exist_ok=True)
        RESULT.write_text(json.dumps(whole, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
