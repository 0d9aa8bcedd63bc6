"""The first plan: for the load as measured, or as expected until something is measured."""

from __future__ import annotations

from hetserve.base.units import QPS
from hetserve.demand.observed import Freshness
from hetserve.planning.formatting import qps_text
from hetserve.scaling.decision import Action, Decision, Limit, ScalingReason
from hetserve.scaling.facts import Facts, Pause
from hetserve.scaling.plans.found import NothingFits, plan_or_reach, plan_words
from hetserve.scaling.plans.grid import up_to_grid
from hetserve.scaling.plans.problems import free_problem, narrowed
from hetserve.scaling.plans.questions import Ask, Pending, Unanswered
from hetserve.scaling.scarcity import caps, scarce_types


def first_plan(facts: Facts, ask: Ask) -> Decision:
    """The decision for a service without a plan."""
    load, words = first_load(facts)
    if load is None:
        return Decision(Action.HOLD, ScalingReason.LOAD_UNKNOWN, words)
    if facts.pause is Pause.ALL:
        limit = Limit(ScalingReason.PAUSED, f"spec.pause is {facts.pause}: nothing is planned yet")
        return Decision(Action.HOLD, ScalingReason.PAUSED, f"{words}; {limit.words}", limits=(limit,))
    scarce = caps(facts, scarce_types(facts.changes, facts.now))
    problem = free_problem(facts.problem, facts.rules, (), up_to_grid(load / facts.rules.saturation), scarce)
    found = plan_or_reach(problem, ask, narrowed(facts.problem, scarce))
    if isinstance(found, Pending):
        return Decision(Action.HOLD, ScalingReason.PLANNING, f"{words}; a plan is being worked out", pending=True)
    if isinstance(found, NothingFits):
        words = f"{words}; no plan: {found.why}"
        return Decision(Action.HOLD, found.limit.reason, words, limits=(found.limit,), held=QPS(0.0))
    if isinstance(found, Unanswered):
        return Decision(Action.HOLD, ScalingReason.PLANNER_FAILED, f"{words}; no plan: {found.why}")
    said = "; ".join((f"{words}: {plan_words(found.plan)}", *(limit.words for limit in found.limits)))
    return Decision(
        Action.FIRST_PLAN,
        ScalingReason.FIRST_PLAN,
        said,
        found.counts,
        load,
        found.plan,
        found.limits,
        found.held,
    )


def first_load(facts: Facts) -> tuple[QPS | None, str]:
    """The load to begin with [queries/s], and where it is from: the highest rate known, else the expected one.

    None, with the reason: nothing is known.
    """
    demand, window = facts.demand, facts.rules.down.window
    if demand.freshness is Freshness.FRESH and demand.samples:
        recent = [sample.qps for sample in demand.samples if sample.at >= demand.now - window]
        load = max(recent or [demand.samples[-1].qps])
        return load, f"planned for {qps_text(load)} as measured"
    if facts.expected is not None:
        return facts.expected, f"planned for {qps_text(facts.expected)} as expected, for nothing is measured yet"
    why = demand.why or f"the load is {demand.freshness}"
    return None, f"no load is known: {why}, and spec.load.expectedQPS is not set"
