"""Explains an evaluation of configurations as a Plan."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from hetserve.planning.formatting import difference_text, latency_text, money_text, qps_text, step_text
from hetserve.planning.kairos.planner import plan_kairos
from hetserve.planning.plan import EvaluatedConfiguration, NextStep, Plan, RankedConfiguration, summary
from hetserve.planning.problem import Problem
from hetserve.planning.robust.candidates import is_homogeneous
from hetserve.planning.slo import ROUNDING

NAME: Final = "robust"


@dataclass(frozen=True, slots=True)
class CandidateEvaluation:
    """held: queries/s of each candidate. method: in words. error: relative error between two mixes."""

    held: tuple[float, ...]
    method: str
    error: float


@dataclass(frozen=True, slots=True)
class RobustChoice:
    """pick: the paper's. ranked: all, best first."""

    problem: Problem
    paper: Plan
    pick: EvaluatedConfiguration
    chosen: EvaluatedConfiguration
    ranked: tuple[EvaluatedConfiguration, ...]
    evaluation: CandidateEvaluation


def best_alone(ranked: Iterable[EvaluatedConfiguration]) -> EvaluatedConfiguration | None:
    return next((entry for entry in ranked if is_homogeneous(entry.candidate.counts)), None)


def explain_robust(choice: RobustChoice) -> Plan:
    """Plan of the chosen configuration; the ranking stays the paper's."""
    chosen, entry = choice.chosen, choice.chosen.candidate
    same = entry.counts == choice.paper.counts
    step = choice.paper.next_step if same else _step_among(choice.problem, entry)
    second = next((other for other in choice.ranked if other is not chosen), None)
    return dataclasses.replace(
        choice.paper,
        planner=NAME,
        message=f"{summary(entry.counts)} for {money_text(entry.cost)}, {qps_text(chosen.held)} in simulation, upper "
        f"bound {qps_text(entry.qps)}",
        counts=entry.counts,
        cost=entry.cost,
        bound_qps=entry.qps,
        runner_up=None if second is None else second.candidate,
        why_not_runner_up="" if second is None else _why_not(choice, second),
        verdict=_verdict(choice, step),
        evaluated=choice.ranked,
        next_step=step,
    )


def _step_among(problem: Problem, entry: RankedConfiguration) -> NextStep | None:
    held = dict(entry.counts)
    types = tuple(o if held[o.name] else dataclasses.replace(o, max_instances=0) for o in problem.types)
    return plan_kairos(dataclasses.replace(problem, types=types)).next_step


def not_evaluated(problem: Problem, paper: Plan, entries: Iterable[RankedConfiguration], why: str) -> Plan:
    """The paper's pick, and why nothing was evaluated; or a single type that serves more than the pick's bound."""
    alone = max((e for e in entries if is_homogeneous(e.counts)), key=lambda e: (e.qps, -e.cost), default=None)
    if alone is None or paper.bound_qps is None or alone.qps <= paper.bound_qps * (1 + ROUNDING):
        verdict = f"not evaluated, this is the paper's pick: {why}; {paper.verdict}"
        return dataclasses.replace(paper, planner=NAME, verdict=verdict)
    pick = RankedConfiguration(paper.counts, paper.cost, paper.bound_qps)
    less = difference_text(pick.qps - alone.qps, pick.cost - alone.cost, "bound")
    left = "" if problem.budget is None else f"; {money_text(problem.budget - alone.cost)} of the budget left"
    step = _step_among(problem, alone)
    more = "" if step is None else f"; {step_text(step)}"
    instead = f"a single type, since the paper's pick {summary(pick.counts)} has {less}"
    return dataclasses.replace(
        paper,
        planner=NAME,
        message=f"{summary(alone.counts)} for {money_text(alone.cost)}, upper bound {qps_text(alone.qps)}",
        counts=alone.counts,
        cost=alone.cost,
        bound_qps=alone.qps,
        runner_up=pick,
        why_not_runner_up=f"the paper's pick: {less}",
        verdict=f"not evaluated: {why}; {instead}{left}{more}",
        next_step=step,
    )


def _why_not(choice: RobustChoice, other: EvaluatedConfiguration) -> str:
    chosen = choice.chosen
    cost = other.candidate.cost - chosen.candidate.cost
    difference = difference_text(other.held - chosen.held, cost, "throughput in simulation")
    if other.held <= chosen.held:
        return difference
    return f"{difference}, within the {choice.evaluation.error:.0%} that this simulation may be wrong by"


def _verdict(choice: RobustChoice, step: NextStep | None) -> str:
    problem, chosen = choice.problem, choice.chosen
    entry, slo = chosen.candidate, problem.slo
    lead = (
        f"holds {qps_text(chosen.held)} within {latency_text(slo.latency)} (p{slo.percentile:.10g}) in simulation "
        f"({choice.evaluation.method}; {len(choice.ranked)} configurations evaluated); {_gain(choice)}; "
        f"{_over_one_type(choice)}"
    )
    if chosen.held > entry.qps:
        # The bound keeps every query within the SLO; the percentile lets large ones be late.
        lead += (
            f"; beyond Kairos's upper bound {qps_text(entry.qps)}, which has every query in time, while "
            f"{100 - slo.percentile:.10g} % may be late here"
        )
    if entry.counts == choice.paper.counts:
        return f"{lead}; {choice.paper.verdict}"
    left = "" if problem.budget is None else f"; {money_text(problem.budget - entry.cost)} of the budget left"
    more = "" if step is None else f"; {step_text(step)}"
    most = "" if chosen.held > entry.qps else f"; at most {qps_text(entry.qps)} by the upper bound"
    return f"{lead}{most}{left}{more}"


def _gain(choice: RobustChoice) -> str:
    chosen, pick = choice.chosen, choice.pick
    if chosen.candidate.counts == pick.candidate.counts:
        return "it is the paper's pick too"
    name = summary(pick.candidate.counts)
    if pick.held <= 0:
        return f"the paper's pick {name} keeps the SLO at no rate"
    more = chosen.held - pick.held
    return f"{qps_text(more)} ({more / pick.held:+.1%}) more than the paper's pick {name}"


def _over_one_type(choice: RobustChoice) -> str:
    alone = best_alone(choice.ranked)
    if alone is None:
        return "no single type was evaluated"
    if alone is choice.chosen:
        return "no mix of types holds more"
    return f"the best single type, {summary(alone.candidate.counts)}, holds {qps_text(alone.held)}"
