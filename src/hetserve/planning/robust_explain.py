"""What an evaluation of candidates says, put into a Plan: what holds, what was gained, and over what."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from hetserve.planning.plan import Evaluated, Plan, summary
from hetserve.planning.problem import Problem
from hetserve.planning.robust_candidates import is_homogeneous
from hetserve.planning.wording import difference_text, latency_text, money_text, qps_text

NAME: Final = "robust"


@dataclass(frozen=True, slots=True)
class Evaluation:
    """held: rate [queries/s] of each candidate. method: how it was found, in words. error: by how much, relative,
    it may prefer the wrong one of two mixes.
    """

    held: tuple[float, ...]
    method: str
    error: float


@dataclass(frozen=True, slots=True)
class Outcome:
    """pick: the paper's, as evaluated. ranked: all, best first."""

    problem: Problem
    paper: Plan
    pick: Evaluated
    chosen: Evaluated
    ranked: tuple[Evaluated, ...]
    evaluation: Evaluation


def best_alone(ranked: Iterable[Evaluated]) -> Evaluated | None:
    """The first of a single type, the best in a ranking."""
    return next((entry for entry in ranked if is_homogeneous(entry.candidate.counts)), None)


def explain_robust(outcome: Outcome) -> Plan:
    """Plan of the chosen candidate; the ranking stays the paper's, by bound, and its next step goes with its pick."""
    chosen, entry = outcome.chosen, outcome.chosen.candidate
    second = next((other for other in outcome.ranked if other is not chosen), None)
    return dataclasses.replace(
        outcome.paper,
        planner=NAME,
        message=f"{summary(entry.counts)} for {money_text(entry.cost)}, {qps_text(chosen.held)} in simulation, upper "
        f"bound {qps_text(entry.qps)}",
        counts=entry.counts,
        cost=entry.cost,
        bound_qps=entry.qps,
        runner_up=None if second is None else second.candidate,
        why_not_runner_up="" if second is None else _why_not(outcome, second),
        verdict=_verdict(outcome),
        evaluated=outcome.ranked,
        next_step=outcome.paper.next_step if entry.counts == outcome.paper.counts else None,
    )


def _why_not(outcome: Outcome, other: Evaluated) -> str:
    chosen = outcome.chosen
    cost = other.candidate.cost - chosen.candidate.cost
    difference = difference_text(other.held - chosen.held, cost, "throughput in simulation")
    if other.held <= chosen.held:
        return difference
    return f"{difference}, within the {outcome.evaluation.error:.0%} that this simulation may be wrong by"


def _verdict(outcome: Outcome) -> str:
    problem, chosen = outcome.problem, outcome.chosen
    entry, slo = chosen.candidate, problem.slo
    lead = (
        f"holds {qps_text(chosen.held)} within {latency_text(slo.latency)} (p{slo.percentile:g}) in simulation "
        f"({outcome.evaluation.method}; {len(outcome.ranked)} configurations evaluated); {_gain(outcome)}; "
        f"{_over_one_type(outcome)}"
    )
    if entry.counts == outcome.paper.counts:
        return f"{lead}; {outcome.paper.verdict}"
    left = "" if problem.budget is None else f"; {money_text(problem.budget - entry.cost)} of the budget left"
    return f"{lead}; at most {qps_text(entry.qps)} by the upper bound{left}"


def _gain(outcome: Outcome) -> str:
    chosen, pick = outcome.chosen, outcome.pick
    if chosen.candidate.counts == pick.candidate.counts:
        return "it is the paper's pick too"
    name = summary(pick.candidate.counts)
    if pick.held <= 0:
        return f"the paper's pick {name} keeps the SLO at no rate"
    more = chosen.held - pick.held
    return f"{qps_text(more)} ({more / pick.held:+.1%}) more than the paper's pick {name}"


def _over_one_type(outcome: Outcome) -> str:
    alone = best_alone(outcome.ranked)
    if alone is None:
        return "no single type was evaluated"
    if alone is outcome.chosen:
        return "no mix of types holds more"
    return f"the best single type, {summary(alone.candidate.counts)}, holds {qps_text(alone.held)}"
