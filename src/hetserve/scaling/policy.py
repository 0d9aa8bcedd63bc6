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
from hetserve.scaling.actions.limits import mend
from hetserve.scaling.actions.replacement import replace_where_it_pays
from hetserve.scaling.actions.shrinking import at_minimum, quiet_loads, scale_down
from hetserve.scaling.decision import Decision, ScalingReason
from hetserve.scaling.facts import Facts
from hetserve.scaling.look import Look, look_at, rate_text
from hetserve.scaling.mix import follow_mix
from hetserve.scaling.plans.capacity import capacity
from hetserve.scaling.plans.counts import is_same
from hetserve.scaling.plans.questions import Ask, Pending, Unanswered
from hetserve.scaling.quiet import NO_LOAD


def decide(facts: Facts, ask: Ask) -> Decision:
    """The decision for a service. ask: planners, which may answer later; then nothing changes until they do.

    Pure: equal facts and answers give equal decisions.
    """
    if facts.in_force is None:
        return first_plan(facts, ask)
    if facts.problem.objective == "MaxThroughput":
        return follow_mix(facts, ask)
    look = look_at(facts)
    mended = mend(look, ask)
    if mended is not None and (mended.changes or mended.pending or _has_unknown_types(look)):
        return mended
    followed = _followed(look, ask)
    if mended is None or followed.changes or followed.pending:
        return followed
    # What the instances hold is of the second look: the first ends before that is asked.
    return replace(mended, measured=followed.measured)


def _has_unknown_types(look: Look) -> bool:
    """Whether instances of the plan can no longer be used: what all of it holds is not known."""
    in_force = look.facts.in_force
    return in_force is not None and not is_same(in_force.counts, look.counts)


def _followed(look: Look, ask: Ask) -> Decision:
    """What the load asks for."""
    facts = look.facts
    if facts.demand.freshness is not Freshness.FRESH:
        why = facts.demand.why or f"the load is {facts.demand.freshness}"
        return look.hold(ScalingReason.METRICS_NOT_FRESH, f"{summary(look.counts)} stay: {why}")
    holds = capacity(facts.problem, look.counts, ask)
    if isinstance(holds, Pending):
        # Whatever the load, nothing is decided before: the answer brings the next look.
        return look.waits(f"what {summary(look.counts)} hold", quiet=look.quiet(NO_LOAD, math.inf))
    if isinstance(holds, Unanswered):
        return look.hold(ScalingReason.PLANNER_FAILED, f"what {summary(look.counts)} hold is not known: {holds.why}")
    return _follow(look.with_capacity(holds), holds.how, ask)


def _follow(look: Look, how: str, ask: Ask) -> Decision:
    """The first step that is due; none: the load is carried, or its windows are not known."""
    for step in (scale_up, scale_down, replace_where_it_pays):
        decision = step(look, ask)
        if decision is not None:
            return decision
    seen, rules = look.measured, look.facts.rules
    if seen.lowest is None or seen.highest is None:
        missing = rules.up.window if seen.lowest is None else rules.down.window
        words = f"{summary(look.counts)} stay: samples do not cover {missing:g} s yet"
        return look.hold(ScalingReason.WINDOW_NOT_COVERED, words)
    words = (
        f"{qps_text(seen.lowest)} to {qps_text(seen.highest)}, and {summary(look.counts)} hold "
        f"{rate_text(seen.capacity)} {how}{look.by_mix}, of which {share_text(rules.saturation)} are used"
    )
    kept = at_minimum(look, ask)
    if isinstance(kept, Pending):
        return look.waits("what one instance fewer holds", quiet=quiet_loads(look, ask))
    held = look.hold(ScalingReason.LOAD_CARRIED, words, *(() if kept is None else (kept,)))
    return replace(held, quiet=quiet_loads(look, ask))
