"""When a plan in force is left for another: what both hold counts, not what bounds promise."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Final

from hetserve.planning.plan import Counts, Plan, Trial
from hetserve.planning.problem import Problem
from hetserve.reconcile.plans.plan_record import PlanRecord
from hetserve.scaling.mix import BETTER

SWITCH_GAIN: Final = Decimal(str(BETTER))
"""Relative gain that justifies replacing a running plan."""


def is_better(plan: Plan, record: PlanRecord, problem: Problem, trial: Trial | None = None) -> bool:
    """Whether a feasible plan is better than the recorded one by SWITCH_GAIN.

    trial: what the recorded counts do; None: the planner has no judge. Without one, MaxThroughput compares what the
    planner has evaluated of both, else its bounds, and MinCost the costs.
    """
    if problem.objective == "MinCost":
        return _is_cheaper(plan, record, problem, trial)
    rates = _evaluated_rates(plan, record) if trial is None else _tried_rates(plan, trial)
    if rates is None and trial is not None and (plan.held_qps, trial.held) != (None, None):
        return trial.held == 0.0  # one is a simulated rate, the other a bound; but nothing is kept that holds nothing
    try:
        new, standing = rates or (Decimal(plan.qps or 0), Decimal(record.qps))
    except InvalidOperation:
        return True
    return new > standing * (1 + SWITCH_GAIN)


def nonzero(counts: Counts) -> dict[str, int]:
    return {name: n for name, n in counts if n > 0}


def is_allowed(record: PlanRecord, problem: Problem) -> bool:
    """Whether a record made for other inputs keeps the budget and the bounds on instances of these."""
    held = record.nonzero
    if not held or not held.keys() <= _prices(problem).keys():
        return False
    wanted = all(held.get(option.name, 0) >= option.min_instances for option in problem.types)
    wanted = wanted and problem.allows_total(sum(held.values()))
    return wanted and (problem.budget is None or cost_of(record, problem) <= problem.budget)


def cost_of(record: PlanRecord, problem: Problem) -> int:
    """Micro-dollars/h of the recorded counts at the problem's prices."""
    prices = _prices(problem)
    return sum(prices[name] * n for name, n in record.nonzero.items())


def _is_cheaper(plan: Plan, record: PlanRecord, problem: Problem, trial: Trial | None) -> bool:
    """A plan that does not carry the load is left for any that is feasible."""
    if trial is not None and trial.holds is False:
        return True
    if trial is not None and trial.holds and not plan.tried:
        return False
    return plan.cost < cost_of(record, problem) * (1 - SWITCH_GAIN)


def _tried_rates(plan: Plan, trial: Trial) -> tuple[Decimal, Decimal] | None:
    if plan.held_qps is None or trial.held is None:
        return None
    return Decimal(plan.held_qps), Decimal(trial.held)


def _evaluated_rates(plan: Plan, record: PlanRecord) -> tuple[Decimal, Decimal] | None:
    """Rates [queries/s] that the new and the recorded counts held when the planner evaluated both; else None.

    Evaluations of earlier problems are not recorded, as they used other queries.
    """
    held = {frozenset(nonzero(one.candidate.counts).items()): one.held for one in plan.evaluated}
    new, standing = (held.get(frozenset(counts.items())) for counts in (nonzero(plan.counts), record.nonzero))
    return None if new is None or standing is None else (Decimal(new), Decimal(standing))


def _prices(problem: Problem) -> Mapping[str, int]:
    return {option.name: option.price for option in problem.types}
