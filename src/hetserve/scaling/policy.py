"""Decides how a service follows its load: which counts are in force from now on, and why.

In this order: limits that are not kept, metrics that cannot be acted on, too few instances, too many, a mix that pays.
Nothing is remembered between decisions: history is in the samples and in the recorded changes. What uses its budget
whatever the load follows the mix of batch sizes instead.
"""

from __future__ import annotations

import math
from dataclasses import replace

from hetserve.demand.observed import Freshness
from hetserve.planning.formatting import qps_text, share_text
from hetserve.planning.plan import summary
from hetserve.scaling.actions.first import first_plan
from hetserve.scaling.actions.growth import scale_up
from hetserve.scaling.actions.limits import enforce_limits
from hetserve.scaling.actions.replacement import replace_where_it_pays
from hetserve.scaling.actions.shrinking import at_minimum, quiet_loads, scale_down
from hetserve.scaling.context import ScalingContext, look_at, rate_text
from hetserve.scaling.dead_band import NO_LOAD
from hetserve.scaling.decision import Decision, ScalingReason
from hetserve.scaling.facts import Facts
from hetserve.scaling.mix import follow_mix
from hetserve.scaling.plans.capacity import capacity
from hetserve.scaling.plans.counts import is_same
from hetserve.scaling.plans.questions import Ask, Pending, Unanswered


def decide(facts: Facts, ask: Ask) -> Decision:
    """The decision for a service. ask: planners, which may answer later; then nothing changes until they do.

    Pure: equal facts and answers give equal decisions.
    """
    if facts.in_force is None:
        return first_plan(facts, ask)
    if facts.problem.objective == "MaxThroughput":
        return follow_mix(facts, ask)
    context = look_at(facts)
    mended = enforce_limits(context, ask)
    if mended is not None and (mended.changes or mended.pending or _has_unknown_types(context)):
        return mended
    followed = _followed(context, ask)
    if mended is None or followed.changes or followed.pending:
        return followed
    # What the instances hold is of the second look: the first ends before that is asked.
    return replace(mended, measured=followed.measured)


def _has_unknown_types(context: ScalingContext) -> bool:
    """Whether instances of the plan can no longer be used: what all of it holds is not known."""
    in_force = context.facts.in_force
    return in_force is not None and not is_same(in_force.counts, context.counts)


def _followed(context: ScalingContext, ask: Ask) -> Decision:
    """What the load asks for."""
    facts = context.facts
    if facts.demand.freshness is not Freshness.FRESH:
        why = facts.demand.why or f"the load is {facts.demand.freshness}"
        return context.hold(ScalingReason.METRICS_NOT_FRESH, f"{summary(context.counts)} stay: {why}")
    holds = capacity(facts.problem, context.counts, ask)
    if isinstance(holds, Pending):
        # Whatever the load, nothing is decided before: the answer brings the next look.
        return context.waits(f"what {summary(context.counts)} hold", dead_band=context.dead_band(NO_LOAD, math.inf))
    if isinstance(holds, Unanswered):
        return context.hold(
            ScalingReason.PLANNER_FAILED, f"what {summary(context.counts)} hold is not known: {holds.why}"
        )
    return _follow(context.with_capacity(holds), holds.how, ask)


def _follow(context: ScalingContext, how: str, ask: Ask) -> Decision:
    """The first step that is due; none: the load is carried, or its windows are not known."""
    for step in (scale_up, scale_down, replace_where_it_pays):
        decision = step(context, ask)
        if decision is not None:
            return decision
    seen, rules = context.measured, context.facts.rules
    if seen.lowest is None or seen.highest is None:
        missing = rules.up.window if seen.lowest is None else rules.down.window
        words = f"{summary(context.counts)} stay: samples do not cover {missing:g} s yet"
        return context.hold(ScalingReason.WINDOW_NOT_COVERED, words)
    words = (
        f"{qps_text(seen.lowest)} to {qps_text(seen.highest)}, and {summary(context.counts)} hold "
        f"{rate_text(seen.capacity)} {how}{context.by_mix}, of which {share_text(rules.saturation)} are used"
    )
    kept = at_minimum(context, ask)
    if isinstance(kept, Pending):
        return context.waits("what one instance fewer holds", dead_band=quiet_loads(context, ask))
    held = context.hold(ScalingReason.LOAD_CARRIED, words, *(() if kept is None else (kept,)))
    return replace(held, dead_band=quiet_loads(context, ask))
