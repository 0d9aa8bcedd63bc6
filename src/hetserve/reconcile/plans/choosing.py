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
from typing import Final

from hetserve.api.conditions import Reason
from hetserve.base.units import MicroDollarsPerHour, format_money
from hetserve.planning.plan import Plan, Trial, summary
from hetserve.planning.registry import has_judge
from hetserve.planning.work import Done
from hetserve.reconcile.plans.bookings import recorded_gpus
from hetserve.reconcile.plans.case import (
    Case,
    infeasible,
    is_right,
    pending,
    planned,
    record_of,
    recorded_as,
    unbooked,
    unplanned,
)
from hetserve.reconcile.plans.plan_decision import Finding, PlanDecision
from hetserve.reconcile.plans.plan_record import PlanRecord, kept_record
from hetserve.reconcile.plans.planner import Planner, PlannerTimedOut, PlanPending, PlanQuestion, fits
from hetserve.reconcile.plans.switching import SWITCH_GAIN, cost_of, is_allowed, is_better, nonzero

_STAYS: Final = (
    "; what runs stays: it books less of its GPUs than is planned now, and instances that book more find no place there"
)


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


def choose(case: Case, planner: Planner) -> PlanDecision:
    force = _in_force(case)
    if not case.books_compute and any(offer.shares for offer in case.offers.usable):
        return unbooked(case, force.standing)
    trial = None if force.rival is None else _checked(case, force, force.rival, planner)
    if isinstance(trial, PlanDecision):
        return trial
    untried = has_judge(case.problem) and case.recorded is None and not case.runs
    answer = planner(PlanQuestion(case.problem, case.declared, needed=force.followed is None, untried=untried))
    if isinstance(answer, PlanPending):
        return pending(case, force.standing)
    if not isinstance(answer, Plan) or answer.reason == Reason.PLANNER_FAILED:
        return _unanswered(case, answer, force)
    return _judged(case, answer, force, trial)


def _in_force(case: Case) -> _InForce:
    recorded, same = case.recorded, case.recorded is not None and case.recorded.inputs == case.digest
    if recorded is not None and same and not is_right(recorded, case):
        return _InForce(None, None, None, None)  # same inputs, other price or booking: somebody edited the record
    fitting = recorded if recorded is not None and fits(recorded.counts, case.problem) else None
    if same:
        return _InForce(recorded, recorded, fitting, fitting)
    judged = fitting is not None and has_judge(case.problem) and is_allowed(fitting, case.problem)
    return _InForce(recorded, None, None, fitting if judged else None)


def _checked(case: Case, force: _InForce, rival: PlanRecord, planner: Planner) -> PlanDecision | Trial | None:
    """The decision if the plan for an empty cluster gives no reason to leave the rival; else what the rival holds."""
    needed = force.followed is None
    ideal = planner(PlanQuestion(case.declared, case.declared, needed, exact=True))
    best = ideal if isinstance(ideal, Plan) and ideal.feasible else None
    if best is not None and rival.nonzero == nonzero(best.counts):
        return _ideal(case, rival, best)
    counts = tuple((option.name, rival.nonzero.get(option.name, 0)) for option in case.declared.types)
    question = PlanQuestion(case.declared, case.declared, needed, exact=True, counts=counts)
    asks = has_judge(case.declared) and not isinstance(ideal, PlanPending)
    trial = planner(question) if asks else None
    if isinstance(ideal, PlanPending) or isinstance(trial, PlanPending):
        return pending(case, force.standing)
    if isinstance(trial, Trial):
        stays = best is not None and not is_better(best, rival, case.declared, trial)
        return _kept(case, rival, trial, best) if stays else trial
    return None if trial is None or force.followed is None else _unanswered(case, trial, force)


def _judged(case: Case, answer: Plan, force: _InForce, trial: Trial | None) -> PlanDecision:
    """The new plan or the one in force. trial: what the latter does, if a judge has tried it."""
    rival = force.followed if trial is None else force.rival
    if not answer.feasible:
        if force.followed is not None and (trial is None or trial.holds is not False):
            return _kept(case, force.followed, trial)
        if case.stays and force.standing is None:
            answer = replace(answer, message=answer.message + _STAYS)
        return infeasible(case.service, case.offers, answer, force.recorded, follow=force.standing is not None)
    if rival is not None and not is_better(answer, rival, case.problem, trial):
        return _kept(case, rival, trial)
    return recorded_as(case, record_of(case, answer))


def _ideal(case: Case, rival: PlanRecord, ideal: Plan) -> PlanDecision:
    """What is in force is the plan for an empty cluster; recorded anew where only that one was tried, or is final."""
    final = not rival.provisional and (rival.tried is not False or not ideal.tried)
    same = rival.inputs == case.digest and final
    return recorded_as(case, rival if same else record_of(case, ideal), ideal=True)


def _kept(case: Case, rival: PlanRecord, trial: Trial | None, ideal: Plan | None = None) -> PlanDecision:
    """What is in force stays, recorded anew if the trial says more of it. ideal: what is not better by enough."""
    record = rival
    tried = trial is not None and (trial.held, trial.holds) != (None, None)
    more = rival.provisional or (tried and rival.tried is False)
    if trial is not None and (rival.inputs != case.digest or more):
        cost = MicroDollarsPerHour(cost_of(rival, case.declared))
        gpus = recorded_gpus(rival.counts, case.offers.usable, case.recorded)
        record = kept_record(rival, trial, case.declared, case.digest, cost, gpus=gpus)
    decision = recorded_as(case, record, ideal=ideal is not None)
    if ideal is None:
        return decision
    other = f"{summary(ideal.counts)} at {format_money(ideal.cost)} $/h is not better by {SWITCH_GAIN:.0%}"
    return replace(decision, planned=replace(decision.planned, message=f"{record.described}; {other}"))


def _unanswered(case: Case, answer: Done | PlannerTimedOut, force: _InForce) -> PlanDecision:
    """The planner was stopped or failed: the recorded plan stays, and the status says why there is no other."""
    if isinstance(answer, PlannerTimedOut):
        reason, words = Reason.PLANNER_TIMED_OUT, f"planner {answer.planner} was stopped after {answer.after:g} s"
    else:
        reason, words = Reason.PLANNER_FAILED, getattr(answer, "message", "no plan")
    if force.followed is None:
        return unplanned(reason, f"{words}; what runs stays", force.recorded, case.service, case.offers)
    finding = Finding("True", reason, f"{force.followed.described}; the check for a better plan: {words}")
    return replace(planned(case.service, case.offers, force.followed), planned=finding)
