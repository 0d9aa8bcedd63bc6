"""Decides which plan is in force for a service that declares its load: for another mix if that is what is measured.

A recorded plan names the measured mix that it was made for, beside the digest of what is declared. From then on that
mix stands for the declared one, as long as the load is measured: neither digits nor a restart undo the change, and the
other checks of the plan go on under it.
"""

from __future__ import annotations

from dataclasses import replace

from hetserve.demand.observed import Demand
from hetserve.planning.registry import has_judge
from hetserve.reconcile.plans.case import Case, is_right, pending, record_of, recorded_as
from hetserve.reconcile.plans.choosing import choose
from hetserve.reconcile.plans.plan_decision import PlanDecision
from hetserve.reconcile.plans.plan_record import MOST_SIZES, PlanRecord, with_mix
from hetserve.reconcile.plans.planner import Planner, fits
from hetserve.reconcile.plans.scaled import asking
from hetserve.scaling.mix import coarse, follow_mix


def choose_mixed(case: Case, demand: Demand | None, planner: Planner) -> PlanDecision:
    """The plan in force; of MaxThroughput one for the mix as measured, if it holds more by enough under that.

    demand: as of World. Only planners that try what they claim are asked: the bounds of others do not compare.
    """
    standing = _standing(case)
    if standing is None or demand is None or demand.mix is None or len(demand.mix.batches) > MOST_SIZES:
        return _labelled(case, choose(case, planner))
    decided = follow_mix(case.problem, standing.counts, demand, asking(case, planner, first=False))
    if decided.pending:
        return pending(case, standing)
    if decided.plan is None:
        return _labelled(case, choose(case, planner))
    plan = replace(decided.plan, verdict=f"{decided.words}; {decided.plan.verdict or decided.plan.message}")
    return recorded_as(case, with_mix(record_of(case, plan), coarse(demand.mix)))


def _standing(case: Case) -> PlanRecord | None:
    """The recorded plan, if it may be left for one of another mix: it is of the same inputs and fits the cluster."""
    record, spec = case.recorded, case.service.spec
    if record is None or record.inputs != case.digest or spec.objective != "MaxThroughput" or spec.metrics is None:
        return None
    booked = case.books_compute or not any(offer.shares for offer in case.offers.usable)
    return (
        record
        if booked and has_judge(case.problem) and is_right(record, case) and fits(record.counts, case.problem)
        else None
    )


def _labelled(case: Case, decision: PlanDecision) -> PlanDecision:
    """With the mix that it was planned for in its record."""
    if decision.record is None or not decision.follow:
        return decision
    record = with_mix(decision.record, case.measured_mix)
    if record.raw == decision.record.raw:
        return decision
    return replace(decision, record=record, fresh=case.recorded is None or record.raw != case.recorded.raw)
