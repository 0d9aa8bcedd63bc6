"""Decides which plan is in force: the recorded one, or a new one.

The recorded plan carries a digest of its declared inputs (spec, types, prices, profiles; not the cluster). While the
inputs are the same, another plan replaces it only if it no longer fits into the cluster, or if the other is better by
the switching gain: every bound pod changes the cluster, and two services that compete for a GPU must settle. A planner
with a judge is asked what the recorded counts hold, and after a change of inputs too. A measurement of what instances
share is such a change; the new record keeps a larger booking while the counts stay (see `bookings`).

A planner may answer later, or be stopped. Until it answers, the recorded plan of the same inputs is followed, and what
the status says of planning stays.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from typing import Final

from hetserve.api.conditions import Reason
from hetserve.base.units import format_money
from hetserve.planning.plan import Plan, Trial, summary
from hetserve.planning.problem import Problem
from hetserve.planning.reach import JobResult
from hetserve.planning.registry import has_judge
from hetserve.reconcile.plans.bookings import recorded_gpus
from hetserve.reconcile.plans.plan_decision import Finding, PlanDecision
from hetserve.reconcile.plans.plan_record import PlanRecord, kept_record, with_sigma
from hetserve.reconcile.plans.planner import Planner, PlannerTimedOut, PlanPending, PlanQuestion, fits
from hetserve.reconcile.plans.planning_context import (
    STAYS,
    PlanningContext,
    infeasible,
    is_right,
    pending,
    planned,
    record_of,
    recorded_as,
    unbooked,
    unplanned,
)
from hetserve.scaling.mix import BETTER
from hetserve.scaling.plans.counts import cost_of, is_same, nonzero


@dataclass(frozen=True, slots=True)
class _InForce:
    """The recorded plan, unless somebody edited it.

    standing: it is of the same inputs; followed: and fits the cluster. rival: what a new plan has to beat: the followed
    one, or one of other inputs whose counts these allow and a judge can try.
    """

    recorded: PlanRecord | None
    standing: PlanRecord | None
    followed: PlanRecord | None
    rival: PlanRecord | None


def choose(context: PlanningContext, planner: Planner) -> PlanDecision:
    force = _in_force(context)
    if not context.counts_pairs and any(offer.shares for offer in context.offers.usable):
        return unbooked(context, force.standing)
    trial = None if force.rival is None else _checked(context, force, force.rival, planner)
    if isinstance(trial, PlanDecision):
        return trial
    untried = has_judge(context.problem) and context.recorded is None and not context.runs
    answer = planner(PlanQuestion(context.problem, context.declared, needed=force.followed is None, untried=untried))
    if isinstance(answer, PlanPending):
        return pending(context, force.standing)
    if not isinstance(answer, Plan) or answer.reason == Reason.PLANNER_FAILED:
        return _unanswered(context, answer, force)
    return _judged(context, answer, force, trial)


def _in_force(context: PlanningContext) -> _InForce:
    recorded, same = context.recorded, context.recorded is not None and context.recorded.inputs == context.digest
    if recorded is not None and same and not is_right(recorded, context):
        return _InForce(None, None, None, None)  # same inputs, other price or booking: somebody edited the record
    problem = context.kept.problem
    fitting = recorded if recorded is not None and fits(recorded.counts, problem) else None
    if same:
        return _InForce(recorded, recorded, fitting, fitting)
    judged = fitting is not None and has_judge(problem) and is_allowed(fitting, problem)
    return _InForce(recorded, None, None, fitting if judged else None)


def _checked(
    context: PlanningContext, force: _InForce, rival: PlanRecord, planner: Planner
) -> PlanDecision | Trial | None:
    """The decision if the plan for an empty cluster gives no reason to leave the rival; else what the rival holds."""
    needed = force.followed is None
    ideal = planner(PlanQuestion(context.declared, context.declared, needed, exact=True))
    best = ideal if isinstance(ideal, Plan) and ideal.feasible else None
    placed = best is not None and fits(best.counts, context.at(dict(best.tolerances)).problem)
    if best is not None and placed and is_same(rival.counts, best.counts):
        return _ideal(context, rival, best)
    counts = tuple((option.name, rival.nonzero.get(option.name, 0)) for option in context.declared.types)
    kept = context.kept.declared
    question = PlanQuestion(kept, context.declared, needed, exact=True, counts=counts)
    asks = has_judge(context.declared) and not isinstance(ideal, PlanPending)
    trial = planner(question) if asks else None
    if isinstance(ideal, PlanPending) or isinstance(trial, PlanPending):
        return pending(context, force.standing)
    if isinstance(trial, Trial):
        stays = best is not None and not is_better(best, rival, kept, trial)
        return _kept(context, rival, trial, best) if stays else trial
    return None if trial is None or force.followed is None else _unanswered(context, trial, force)


def _judged(context: PlanningContext, answer: Plan, force: _InForce, trial: Trial | None) -> PlanDecision:
    """The new plan or the one in force. trial: what the latter does, if a judge has tried it."""
    rival = force.followed if trial is None else force.rival
    if not answer.feasible:
        if force.followed is not None and (trial is None or trial.holds is not False):
            return _kept(context, force.followed, trial)
        if context.stays and force.standing is None:
            answer = replace(answer, message=answer.message + STAYS)
        recorded = force.recorded if trial is None or force.recorded is None else force.recorded.as_final()
        return infeasible(context, answer, recorded, follow=force.standing is not None)
    if rival is not None and not is_better(answer, rival, context.kept.problem, trial):
        return _kept(context, rival, trial)
    return recorded_as(context, record_of(context, answer))


def _ideal(context: PlanningContext, rival: PlanRecord, ideal: Plan) -> PlanDecision:
    """What is in force is the plan for an empty cluster; recorded anew where only that one was tried, or is final."""
    final = not rival.provisional and (rival.tried is not False or not ideal.tried)
    same = rival.inputs == context.digest and final
    return recorded_as(context, rival if same else record_of(context, ideal), ideal=True)


def _kept(context: PlanningContext, rival: PlanRecord, trial: Trial | None, ideal: Plan | None = None) -> PlanDecision:
    """What is in force stays, recorded anew if the trial says more of it. ideal: what is not better by enough."""
    record = rival
    tried = trial is not None and (trial.held, trial.holds) != (None, None)
    more = rival.provisional or (tried and rival.tried is False)
    if trial is not None and (rival.inputs != context.digest or more):
        gpus = recorded_gpus(rival.counts, context.kept.offers.usable, context.recorded)
        promised = context.promising(gpus)
        cost = cost_of(rival.counts, promised.declared)
        record = kept_record(rival, trial, promised.declared, promised.digest, cost, gpus=gpus)
        record = with_sigma(record, context.max_slowdown)
    decision = recorded_as(context, record, ideal=ideal is not None)
    if ideal is None:
        return decision
    other = f"{summary(ideal.counts)} at {format_money(ideal.cost)} $/h is not better by {SWITCH_GAIN:.0%}"
    return replace(decision, planned=replace(decision.planned, message=f"{record.described}; {other}"))


def _unanswered(context: PlanningContext, answer: JobResult | PlannerTimedOut, force: _InForce) -> PlanDecision:
    """The planner was stopped or failed: the recorded plan stays, and the status says why there is no other."""
    if isinstance(answer, PlannerTimedOut):
        reason, message = Reason.PLANNER_TIMED_OUT, f"planner {answer.planner} was stopped after {answer.after:g} s"
    else:
        reason, message = Reason.PLANNER_FAILED, getattr(answer, "message", "no plan")
    if force.followed is None:
        return unplanned(reason, f"{message}; what runs stays", force.recorded, context.service, context.offers)
    finding = Finding("True", reason, f"{force.followed.described}; the check for a better plan: {message}")
    return replace(planned(context, force.followed), planned=finding)


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


def is_allowed(record: PlanRecord, problem: Problem) -> bool:
    """Whether a record made for other inputs keeps the budget and the bounds on instances of these."""
    held = record.nonzero
    if not held or not held.keys() <= {option.name for option in problem.types}:
        return False
    wanted = all(held.get(option.name, 0) >= option.min_instances for option in problem.types)
    wanted = wanted and problem.allows_total(sum(held.values()))
    return wanted and (problem.budget is None or cost_of(record.counts, problem) <= problem.budget)


def _is_cheaper(plan: Plan, record: PlanRecord, problem: Problem, trial: Trial | None) -> bool:
    """A plan that does not carry the load is left for any that is feasible."""
    if trial is not None and trial.holds is False:
        return True
    if trial is not None and trial.holds and not plan.tried:
        return False
    return plan.cost < cost_of(record.counts, problem) * (1 - SWITCH_GAIN)


def _tried_rates(plan: Plan, trial: Trial) -> tuple[Decimal, Decimal] | None:
    if plan.held_qps is None or trial.held is None:
        return None
    return Decimal(plan.held_qps), Decimal(trial.held)


def _evaluated_rates(plan: Plan, record: PlanRecord) -> tuple[Decimal, Decimal] | None:
    """Rates [queries/s] that the new and the recorded counts held when the planner evaluated both; else None.

    Evaluations of earlier problems are not recorded, as they used other queries.
    """
    held = {frozenset(nonzero(one.candidate.counts)): one.held for one in plan.evaluated}
    new, standing = (held.get(frozenset(nonzero(counts))) for counts in (plan.counts, record.counts))
    return None if new is None or standing is None else (Decimal(new), Decimal(standing))
