"""Kairos: ranks what the budget buys by an upper bound (Eq. 15), then picks by similarity (HPDC'23, section 5.2).

Order: bound descending, cost ascending, then counts, the base first. Ties are many: the bound is flat once the base
saturates. A plan explains the choice by the bound, or by trials of an evaluator.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from hetserve.api.conditions import Reason
from hetserve.base.units import QPS, MicroDollarsPerHour
from hetserve.planning.formatting import (
    batches_text,
    difference_text,
    latency_text,
    money_text,
    qps_text,
    share_text,
    step_text,
)
from hetserve.planning.kairos.ranking import (
    BoundedConfiguration,
    RankingInputs,
    entries,
    next_step,
    nothing_fits,
    ranking_inputs,
)
from hetserve.planning.kbest.best import Ranking, best_configurations, space_of
from hetserve.planning.plan import EvaluatedConfiguration, Evaluator, Plan, StepSearch, infeasible, summary
from hetserve.planning.problem import Problem, TypeRefusal
from hetserve.planning.rates import Auxiliary

NAME: Final = "kairos"
TOP: Final = 10


def plan_kairos(problem: Problem, _evaluate: Evaluator | None = None, _seed: int | None = None) -> Plan:
    """Kairos's plan.

    Infeasible with BudgetTooLow, CapacityTooLow, NoTypeMeetsSLO, InstanceTypeNotFound (problem.base) or SpecInvalid (no
    budget).
    """
    inputs = ranking_inputs(problem, NAME)
    if isinstance(inputs, Plan):
        return inputs
    ranking = best_configurations(space_of(inputs.rates, inputs.budget, problem.pools), TOP)
    if not len(ranking.counts):
        return nothing_fits(inputs)
    ranked = tuple(entries(inputs.rates, ranking))
    pick, rule = pick_by_similarity(ranked)
    step = next_step(inputs, ranked[0], complete=ranking.complete)
    return explain(inputs, ranked, pick=pick, rule=rule, ranking=ranking, step=step)


def pick_by_similarity(ranked: tuple[BoundedConfiguration, ...]) -> tuple[int, str]:
    """Index of the pick among the ten best, and the rule that chose it (section 5.2, last paragraph).

    The best, if the three best have equal numbers of base instances; else the one with the least sum of squared
    Euclidean distances to the other nine, ties by rank. Without auxiliaries the bound is exact: the best.
    """
    if len(ranked[0].counts) == 1:
        return 0, "only type that can be used: the most instances are taken"
    if len({entry.counts[0] for entry in ranked[:3]}) == 1:
        which = "top-3" if len(ranked) >= 3 else f"top-{len(ranked)}"
        return 0, f"{which} rule: the best bounds agree on {ranked[0].counts[0]} base instance(s), so the best is taken"
    points = np.array([entry.counts for entry in ranked])
    sums = ((points[:, None, :] - points[None, :, :]) ** 2).sum(axis=(1, 2))
    return int(np.argmin(sums)), (
        "similarity rule: the three best bounds differ in base instances, so of the ten best the one nearest to the "
        "others is taken"
    )


def explain(
    inputs: RankingInputs,
    ranked: tuple[BoundedConfiguration, ...],
    *,
    pick: int,
    rule: str,
    ranking: Ranking,
    step: StepSearch,
) -> Plan:
    chosen = ranked[pick]
    counts = inputs.counts_of(chosen.counts)
    runner_up = next((entry for i, entry in enumerate(ranked) if i != pick), None)
    why_not = "" if runner_up is None else _why_not(chosen, runner_up, rule)
    return Plan(
        reason=Reason.PLAN_FEASIBLE,
        message=f"{summary(counts)} for {money_text(chosen.cost)}, upper bound {qps_text(chosen.bound)}",
        planner=inputs.planner,
        counts=counts,
        cost=MicroDollarsPerHour(chosen.cost),
        bound_qps=QPS(chosen.bound),
        why_not_runner_up=why_not,
        ranking=tuple(inputs.ranked(entry) for entry in ranked),
        refusals=inputs.problem.left_out + roles(inputs),
        verdict=f"{_verdict(inputs, chosen, rule, ranking)}; {step_text(step.step, step.known)}",
        next_step=step.step,
    )


@dataclass(slots=True)
class Trials:
    """done: the rate that each configuration held [queries/s]."""

    inputs: RankingInputs
    evaluate: Evaluator
    done: dict[BoundedConfiguration, float] = field(default_factory=dict)

    def hold(self, entry: BoundedConfiguration) -> float:
        """Tries a configuration. Raises ValueError for what is no rate."""
        counts = self.inputs.counts_of(entry.counts)
        held = float(self.evaluate(counts))
        if not (math.isfinite(held) and held >= 0):
            raise ValueError(f"the evaluator says {held} q/s of {summary(counts)}")
        self.done[entry] = held
        return held


def plan_of_trials(trials: Trials, how: str, *, complete: bool = True) -> Plan:
    """Plan of the best trial.

    how: what the planner did. complete: whether the best bound of all is among the trials.
    """
    inputs, problem, done = trials.inputs, trials.inputs.problem, trials.done
    ranked = sorted(done, key=lambda entry: (-done[entry], entry.cost, entry.counts))[:TOP]
    within = latency_text(problem.slo.latency)
    if not ranked or done[ranked[0]] <= 0:
        message = f"none of {len(done)} configurations tried holds any load within {within}"
        return infeasible(problem, inputs.planner, Reason.NO_TYPE_MEETS_SLO, message)
    best, rates = ranked[0], [qps_text(done[entry]) for entry in ranked]
    step = next_step(inputs, max(done, key=lambda entry: entry.bound), complete=complete)
    ranking = tuple(map(inputs.ranked, ranked))
    return Plan(
        reason=Reason.PLAN_FEASIBLE,
        message=(
            f"{summary(ranking[0].counts)} for {money_text(best.cost)}, holds {rates[0]} (upper bound "
            f"{qps_text(best.bound)})"
        ),
        planner=inputs.planner,
        counts=ranking[0].counts,
        cost=ranking[0].cost,
        bound_qps=ranking[0].qps,
        why_not_runner_up=f"it holds {rates[1]}, {rates[0]} here" if len(rates) > 1 else "",
        ranking=ranking,
        refusals=problem.left_out + roles(inputs),
        verdict=(
            f"holds {rates[0]} within {within} (p{problem.slo.percentile:.10g}), as evaluated; {how}; "
            f"{_left_text(inputs, best)}; {step_text(step.step, step.known)}"
        ),
        evaluated=tuple(
            EvaluatedConfiguration(one, QPS(done[entry])) for entry, one in zip(ranked, ranking, strict=True)
        ),
        next_step=step.step,
    )


def _left_text(inputs: RankingInputs, chosen: BoundedConfiguration) -> str:
    return f"{money_text(inputs.budget - chosen.cost)} of {money_text(inputs.budget)} left"


def _why_not(chosen: BoundedConfiguration, other: BoundedConfiguration, rule: str) -> str:
    bound, cost = other.bound - chosen.bound, other.cost - chosen.cost
    if abs(bound) < 1e-9 * chosen.bound:
        bound = 0.0
    if bound == 0.0 and cost == 0:
        return "the same bound at the same cost; the counts decided (base first, then auxiliaries by name)"
    difference = difference_text(bound, cost, "bound")
    return f"{difference}, but {rule}" if bound > 0 or (bound == 0.0 and cost < 0) else difference


def roles(inputs: RankingInputs) -> tuple[TypeRefusal, ...]:
    """Per type other than the base, what it can serve within the SLO."""
    useful = {aux.option.name: aux for aux in inputs.rates.auxiliaries}
    slo = latency_text(inputs.problem.slo.latency)
    lines: list[TypeRefusal] = []
    for option in sorted(inputs.problem.types, key=lambda o: o.name):
        if option.name in useful:
            lines.append(TypeRefusal(option.name, _role(useful[option.name], inputs, slo)))
        elif option.name != inputs.rates.base.name:
            smallest = inputs.problem.mix.batches[0]
            reason = f"too slow even at batch {smallest}, the smallest, for {slo}: not used"
            lines.append(TypeRefusal(option.name, reason))
    return tuple(lines)


def _role(aux: Auxiliary, inputs: RankingInputs, slo: str) -> str:
    limited = "" if aux.option.max_instances is None else f", at most {aux.option.max_instances}"
    batches = inputs.problem.mix.batches
    if aux.served == batches:
        base = inputs.rates.base.name
        return f"serves every batch within {slo}, for more $ per query than {base}: auxiliary for all queries{limited}"
    missed = f"above batch {aux.limit}" if _is_first(aux.served, batches) else f"at {_missed(aux.served, batches)}"
    f = inputs.problem.mix.share_of(aux.served)
    return f"too slow {missed} for {slo}: auxiliary for {share_text(f)} of queries (f = {f:.3f}){limited}"


def _is_first(some: tuple[int, ...], batches: tuple[int, ...]) -> bool:
    """Whether these are the smallest of the batches."""
    return some == batches[: len(some)]


def _missed(some: tuple[int, ...], batches: tuple[int, ...]) -> str:
    """The first run of batches that are not among these, and whether there are more."""
    runs = [list(run) for out, run in itertools.groupby(batches, lambda b: b not in some) if out]
    return batches_text(runs[0][0], runs[0][-1]) + (" and others" if len(runs) > 1 else "")


def _verdict(inputs: RankingInputs, chosen: BoundedConfiguration, rule: str, ranking: Ranking) -> str:
    slo = inputs.problem.slo
    return (
        f"at most {qps_text(chosen.bound)} within {latency_text(slo.latency)} (p{slo.percentile:.10g}), by Kairos's "
        f"upper bound, not by measurement; {_binding(inputs, chosen)}; "
        f"{_left_text(inputs, chosen)}; "
        f"chosen among {_size(ranking)} configurations by the {rule}"
        + ("" if ranking.complete else "; too many to look at all: there may be better ones")
    )


def _size(ranking: Ranking) -> str:
    return f"{ranking.size:.0f}" if ranking.size < 1e6 else f"about {ranking.size:.2g}"


def _binding(inputs: RankingInputs, chosen: BoundedConfiguration) -> str:
    rates = inputs.rates
    present = [aux for aux, count in zip(rates.auxiliaries, chosen.counts[1:], strict=True) if count]
    if not present:
        return f"{rates.base.name} alone serves every query"
    leader = max(present, key=lambda aux: aux.limit)
    plateau = chosen.counts[0] * rates.q_base / (1 - leader.t) if leader.t < 1 else None
    if plateau is not None and chosen.bound >= plateau * (1 - 1e-9):
        rest = f"batches above {leader.limit}"
        if not _is_first(leader.common, inputs.problem.mix.batches):
            rest = _missed(leader.common, inputs.problem.mix.batches)
        return f"limited by {rates.base.name}, the only type for {rest}"
    return f"limited by the auxiliaries: {rates.base.name} still has time for smaller queries"
