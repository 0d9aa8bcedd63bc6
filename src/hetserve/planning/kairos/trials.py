"""Tries configurations by an evaluator, and explains the best as a Plan."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from hetserve.api.conditions import Reason
from hetserve.base.units import QPS, MicroDollarsPerHour
from hetserve.planning.formatting import latency_text, money_text, qps_text, step_text
from hetserve.planning.kairos.explain import roles
from hetserve.planning.kairos.ranking import BoundedConfiguration, RankingInputs, next_step
from hetserve.planning.plan import EvaluatedConfiguration, Evaluator, Plan, infeasible, summary


@dataclass(frozen=True, slots=True)
class TriedConfiguration:
    """A configuration with its bound, and the rate that it held [queries/s]."""

    entry: BoundedConfiguration
    held: float


@dataclass(slots=True)
class Trials:
    inputs: RankingInputs
    evaluate: Evaluator
    done: list[TriedConfiguration] = field(default_factory=list)

    def hold(self, entry: BoundedConfiguration) -> float:
        """Tries a configuration. Raises ValueError for what is no rate."""
        counts = self.inputs.counts_of(entry.counts)
        held = float(self.evaluate(counts))
        if not (math.isfinite(held) and held >= 0):
            raise ValueError(f"the evaluator says {held} q/s of {summary(counts)}")
        self.done.append(TriedConfiguration(entry, held))
        return held


def plan_of_trials(trials: Trials, how: str, *, complete: bool = True) -> Plan:
    """Plan of the best trial.

    how: what the planner did. complete: whether the best bound of all is among the trials.
    """
    inputs, problem = trials.inputs, trials.inputs.problem
    ranked = sorted(trials.done, key=lambda trial: (-trial.held, trial.entry.cost, trial.entry.counts))
    if not ranked or ranked[0].held <= 0:
        message = (
            f"none of {len(ranked)} configurations tried holds any load within {latency_text(problem.slo.latency)}"
        )
        return infeasible(problem, inputs.planner, Reason.NO_TYPE_MEETS_SLO, message)
    best, second = ranked[0], ranked[1] if len(ranked) > 1 else None
    counts = inputs.counts_of(best.entry.counts)
    best_bound = max((trial.entry for trial in trials.done), key=lambda entry: entry.bound)
    found = next_step(inputs, best_bound, complete=complete)
    tried = [EvaluatedConfiguration(inputs.ranked(trial.entry), QPS(trial.held)) for trial in ranked]
    return Plan(
        feasible=True,
        reason=Reason.PLAN_FEASIBLE,
        message=(
            f"{summary(counts)} for {money_text(best.entry.cost)}, holds {qps_text(best.held)} "
            f"(upper bound {qps_text(best.entry.bound)})"
        ),
        planner=inputs.planner,
        counts=counts,
        cost=MicroDollarsPerHour(best.entry.cost),
        bound_qps=QPS(best.entry.bound),
        runner_up=None if second is None else inputs.ranked(second.entry),
        why_not_runner_up="" if second is None else f"it holds {qps_text(second.held)}, {qps_text(best.held)} here",
        ranking=tuple(inputs.ranked(trial.entry) for trial in ranked[:10]),
        refusals=problem.left_out + roles(inputs),
        verdict=(
            f"holds {qps_text(best.held)} within {latency_text(problem.slo.latency)} (p{problem.slo.percentile:.10g}), "
            f"as evaluated; {how}; {money_text(inputs.budget - best.entry.cost)} of {money_text(inputs.budget)} "
            f"left; {step_text(found.step, found.known)}"
        ),
        evaluated=tuple(tried[:10]),
        next_step=found.step,
    )
