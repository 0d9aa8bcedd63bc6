"""Kairos+: the best configuration by trying as few as possible (HPDC'23, Algorithm 1).

Tries in falling order of the bound, skips sub-configurations of what was tried, and ends when no bound is above the
best rate.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from hetserve.planning.formatting import qps_text
from hetserve.planning.kairos.planner import Trials, plan_kairos, plan_of_trials
from hetserve.planning.kairos.ranking import (
    BoundedConfiguration,
    RankingInputs,
    configuration_bounds,
    entries,
    nothing_fits,
    ranking_inputs,
)
from hetserve.planning.kbest.best import Space, best_configurations, space_of
from hetserve.planning.plan import Counts, Evaluator, Plan
from hetserve.planning.problem import Problem
from hetserve.simulation.stability import ceiling, fewest_queries

NAME: Final = "kairos-plus"
FIRST: Final = 64

SEED: Final = 11
QUERIES: Final = 6000
"""Least queries of a trial at each rate."""
WORK: Final = 300_000
"""Limit on queries, summed over all trials: 5 to 15 s."""

_MOST_RANKED: Final = 32_768


def plan_kairos_plus(
    problem: Problem, evaluate: Evaluator | None = None, seed: int | None = None, *, limit: int | None = None
) -> Plan:
    """Best configuration by trial.

    evaluate: rate that a configuration holds; None: a simulation under the policy that serves with `seed`, within WORK,
    or planner kairos's plan if WORK allows no trial. limit: most trials; None: until the bounds rule out all others.

    Infeasible as planner kairos, or with NoTypeMeetsSLO if nothing that was tried holds any load.
    """
    inputs = ranking_inputs(problem, NAME)
    if isinstance(inputs, Plan):
        return inputs
    bounds = _Bounds(inputs, space_of(inputs.rates, inputs.budget, problem.pools))
    top = next(iter(bounds), None)
    if top is None or limit == 0:
        return nothing_fits(inputs)
    length = ""
    if evaluate is None:
        queries = max(QUERIES, fewest_queries(problem.slo.latency, top.bound))
        within, length = WORK // queries, f", each with {queries} queries"
        if not within:
            return _untried(problem, queries)
        evaluate = _simulation(inputs, queries, SEED if seed is None else seed)
        limit = within if limit is None else min(limit, within)
    trials = Trials(inputs, evaluate)
    pruned, end = _try(trials, bounds, limit)
    how = f"{len(trials.done)} configurations tried{length}, {pruned} sub-configurations of them skipped; {end}"
    return plan_of_trials(trials, how, complete=bounds.complete)


def _try(trials: Trials, bounds: _Bounds, limit: int | None) -> tuple[int, str]:
    """Tries by falling bound; returns the number of sub-configurations skipped, and why it ended."""
    pruned, best = 0, 0.0
    for entry in bounds:
        if trials.done and entry.bound <= best:
            break
        if any(_below(entry, tried) for tried in trials.done):
            pruned += 1
            continue
        if limit is not None and len(trials.done) >= limit:
            return pruned, f"stopped at the limit of {limit}"
        best = max(best, trials.hold(entry))
    else:
        if not bounds.whole:
            return pruned, f"the {_MOST_RANKED} best bounds were gone through"
    if bounds.complete:
        return pruned, f"no other bound is above {qps_text(best)}"
    found = f"no other bound that was found is above {qps_text(best)}"
    return pruned, f"{found}, but they were too many to look at all: there may be better ones"


def _untried(problem: Problem, queries: int) -> Plan:
    paper = plan_kairos(problem)
    why = f"overload would show after {queries} queries only, too many for one trial"
    verdict = f"nothing was tried, this is the paper's pick: {why}; {paper.verdict}"
    return dataclasses.replace(paper, planner=NAME, verdict=verdict)


@dataclass(slots=True)
class _Bounds:
    """Configurations by falling bound, ranked in growing portions.

    complete: whether these are the best of all. whole: the last portion had no more.
    """

    inputs: RankingInputs
    space: Space
    complete: bool = True
    whole: bool = False

    def __iter__(self) -> Iterator[BoundedConfiguration]:
        seen: set[tuple[int, ...]] = set()
        top = FIRST
        while not self.whole and top <= _MOST_RANKED:
            ranking = best_configurations(self.space, top)
            self.complete = ranking.complete
            for entry in entries(self.inputs.rates, ranking):
                if entry.counts not in seen:
                    seen.add(entry.counts)
                    yield entry
            self.whole = len(ranking.counts) < top
            top *= 8


def _below(one: BoundedConfiguration, other: BoundedConfiguration) -> bool:
    return all(a <= b for a, b in zip(one.counts, other.counts, strict=True))


def _simulation(inputs: RankingInputs, queries: int, seed: int) -> Evaluator:
    """Highest rate below their bound that counts hold under the problem's policy."""
    from hetserve.dispatch import make_policy  # noqa: PLC0415  numba loads late
    from hetserve.serving.system import System  # noqa: PLC0415
    from hetserve.simulation.allowable import TrialSetup, allowable_throughput  # noqa: PLC0415
    from hetserve.simulation.criteria import steady_per_seed  # noqa: PLC0415
    from hetserve.simulation.workload import draw_workload  # noqa: PLC0415

    problem, rates = inputs.problem, inputs.rates
    names = (rates.base.name, *(aux.option.name for aux in rates.auxiliaries))
    system = System.of({o.name: o.profile for o in problem.types}, problem.mix.batches, problem.slo.latency)
    policy, work = make_policy(problem.policy), draw_workload(problem.mix, queries, seed)

    def held(counts: Counts, /) -> float:
        by_name = dict(counts)
        row = np.array([[by_name[name] for name in names]], dtype=np.int64)
        bound = float(configuration_bounds(rates, row)[0])
        top = min(ceiling(system, by_name, problem.mix), bound)
        judged = TrialSetup(system, by_name, policy, problem.slo.percentile, steady_per_seed(), ceiling=top)
        return allowable_throughput(judged, [work], bound).rate

    return held
