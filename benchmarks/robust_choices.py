"""What planner robust chooses against everything it evaluates, searched with the compiled simulation: decision 0022.

45 problems of Kairos's setting; minutes on one core. Not one of `make bench`.

Run: PYTHONPATH=. .venv/bin/python benchmarks/robust_choices.py [MODEL...]
"""

from __future__ import annotations

import dataclasses
import statistics
import sys
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


def main() -> None:
    of_best, of_paper, of_single = [], [], []
    for model in sys.argv[1:] or MODELS:
        for fields, noise in VARIANTS:
            given = posed(model, fields, noise)
            plan, paper = plan_robust(given), plan_kairos(given)
            start = {e.candidate.counts: min(e.candidate.qps, 2 * e.held or e.candidate.qps) for e in plan.evaluated}
            rates = {counts: held(given, counts, rate) for counts, rate in start.items()}
            best = max(rates, key=lambda counts: rates[counts])
            single = max((rate for counts, rate in rates.items() if is_homogeneous(counts)), default=0.0)
            ours = rates[plan.counts]
            of_best.append(ours / rates[best])
            of_paper.append(ours / rates[paper.counts] if rates[paper.counts] else 1.0)
            of_single.append(ours / single if single else 1.0)
            print(
                f"{model:7} {fields or ''!s:32} noise {noise:4.2f}: {short(plan.counts)} {ours:8.5g} q/s, "
                f"paper {of_paper[-1]:.3f} x {short(paper.counts)}, best {of_best[-1]:.3f} x {short(best)}",
                flush=True,
            )
    wins, mean = sum(ratio > 0.999 for ratio in of_best), statistics.fmean(of_best)
    print(f"best of its candidates in {wins} of {len(of_best)} problems, on average {mean:.4f} of the best")
    print(f"least over the paper's pick {min(of_paper):.3f}, over the best single type {min(of_single):.3f}")


if __name__ == "__main__":
    main()
