"""Decides which plan is in force for a service that declares its load: for another mix if that is what is measured.

A recorded plan names the measured mix that it was made for, beside the digest of what is declared. From then on that
mix stands for the declared one, as long as the load is measured: neither digits nor a restart undo the change, and the
other checks of the plan go on under it.
"""

from __future__ import annotations

from dataclasses import replace

from hetserve.planning.registry import has_judge
from hetserve.reconcile.plans.autoscaled import asking, decided_for
from hetserve.reconcile.plans.changes import entry_of
from hetserve.reconcile.plans.pause_and_advise import held_advice, stored_advice
from hetserve.reconcile.plans.plan_decision import Explained, PlanDecision
from hetserve.reconcile.plans.plan_record import PlanRecord, with_mix
from hetserve.reconcile.plans.plan_selection import choose
from hetserve.reconcile.plans.planner import Planner, fits
from hetserve.reconcile.plans.planning_context import (
    PlanningContext,
    is_right,
    pending,
    record_of,
    recorded_as,
    state_of,
)
from hetserve.reconcile.snapshot import ServiceSnapshot
from hetserve.scaling import Facts, InForce, ScalingRules
from hetserve.scaling.mix import coarse, has_moved


def choose_mixed(context: PlanningContext, snapshot: ServiceSnapshot, planner: Planner) -> PlanDecision:
    """The plan in force; of MaxThroughput one for the mix as measured, if it holds more by enough under that.

    Only planners that try what they claim are asked: the bounds of others do not compare.
    """
    standing, demand = _standing(context), snapshot.demand
    if standing is None or demand is None:
        return _labelled(context, choose(context, planner))
    advice = stored_advice(context, snapshot.service or {})
    held, now = InForce(standing.counts if advice is None else advice.counts), snapshot.now.timestamp()
    facts = Facts(now, ScalingRules(), demand, context.problem, context.declared, held)  # neither load nor what runs
    decided, on_record = decided_for(context, facts, asking(context, planner, facts))
    if decided.pending:
        return pending(context, standing)
    if decided.plan is None:
        if advice is not None and has_moved(context.problem, demand):
            return held_advice(context, advice, decided.words)
        return _labelled(context, choose(context, planner))
    assert demand.mix is not None  # noqa: S101  the plan is for it
    plan = replace(decided.plan, verdict=f"{decided.words}; {decided.plan.verdict or decided.plan.message}")
    record = with_mix(record_of(context, plan), coarse(demand.mix))
    explained = Explained(entry_of(decided, standing, record, snapshot.now), on_record)
    return replace(recorded_as(context, record), explained=explained)


def _standing(context: PlanningContext) -> PlanRecord | None:
    """The recorded plan, if it may be left for one of another mix: it is of the same inputs and fits the cluster."""
    record, spec = context.recorded, context.service.spec
    if record is None or record.inputs != context.digest or spec.objective != "MaxThroughput" or spec.metrics is None:
        return None
    booked = context.books_compute or not any(offer.shares for offer in context.offers.usable)
    return (
        record
        if booked and has_judge(context.problem) and is_right(record, context) and fits(record.counts, context.problem)
        else None
    )


def _labelled(context: PlanningContext, decision: PlanDecision) -> PlanDecision:
    """With the mix that it was planned for in its record."""
    if decision.record is None or not decision.is_followed:
        return decision
    record = with_mix(decision.record, context.measured_mix)
    if record.raw == decision.record.raw:
        return decision
    return replace(decision, record=record, state=state_of(record, context.recorded))
