"""Decides how a service follows its load: which counts are in force from now on, and why.

In this order: limits that are not kept, metrics that cannot be acted on, too few instances, too many, a mix that pays.
Nothing is remembered between decisions: history is in the samples and in the recorded changes. What uses its budget
whatever the load follows the mix of batch sizes instead. A steady load and pods that wait cause no event, so
`turns_in` says when time alone may change a decision.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from hetserve.base.units import QPS, Seconds
from hetserve.demand.observed import Freshness
from hetserve.planning.formatting import qps_text, share_text
from hetserve.planning.plan import summary
from hetserve.scaling.actions.growth import scale_up
from hetserve.scaling.actions.limits import enforce_limits
from hetserve.scaling.actions.replacement import replace_where_it_pays
from hetserve.scaling.actions.shrinking import at_minimum, quiet_loads, scale_down
from hetserve.scaling.context import MISSED_FOR, ScalingContext, calm_from, look_at
from hetserve.scaling.dead_band import NO_LOAD
from hetserve.scaling.decision import Action, Decision, Limit, ScalingReason
from hetserve.scaling.facts import Change, Facts, Pause
from hetserve.scaling.mix import follow_mix
from hetserve.scaling.plans.answers import Ask, Pending, Unanswered
from hetserve.scaling.plans.capacity import Holds, capacity
from hetserve.scaling.plans.counts import is_same
from hetserve.scaling.plans.found import NothingFits, plan_or_reach, plan_words
from hetserve.scaling.plans.problems import free_problem, narrowed, up_to_grid
from hetserve.scaling.scarcity import REMEMBERED, caps, scarce_types

_AFTER: Final = 1.0
"""Seconds after an end: recorded times are of whole seconds."""


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
    # What all of a plan holds is not known where some of its instances can no longer be used.
    if mended is not None and (mended.changes or mended.pending or not is_same(facts.in_force.counts, context.counts)):
        return mended
    followed = _followed(context, ask)
    if mended is None or followed.changes or followed.pending:
        return followed
    # What the instances hold is of the second look: the first ends before that is asked.
    return replace(mended, measured=followed.measured)


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
    return _follow(context.with_capacity(holds), holds, ask)


def _follow(context: ScalingContext, holds: Holds, ask: Ask) -> Decision:
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
        f"{qps_text(holds.qps)} {holds.how}{context.by_mix}, of which {share_text(rules.saturation)} are used"
    )
    kept = at_minimum(context, ask)
    if isinstance(kept, Pending):
        return context.waits("what one instance fewer holds", dead_band=quiet_loads(context, ask))
    held = context.hold(ScalingReason.LOAD_CARRIED, words, *(() if kept is None else (kept,)))
    return replace(held, dead_band=quiet_loads(context, ask))


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


def turns_in(facts: Facts) -> Seconds | None:
    """Seconds until the next moment at which time alone may change the decision; None: there is none."""
    ends = [
        change.at + period for change in facts.changes if change.at <= facts.now for period in _periods(facts, change)
    ]
    late = (facts.now + o.launch_time - facts.waiting[o.name] for o in facts.problem.types if o.name in facts.waiting)
    mix = () if facts.mix_settles is None else (facts.mix_settles,)
    calm = (calm_from(facts, facts.in_force.counts),) if facts.demand.attained and facts.in_force is not None else ()
    waits = [at + _AFTER - facts.now for at in (*ends, *late, *mix, *calm) if at + _AFTER > facts.now]
    return Seconds(min(waits)) if waits else None


def _periods(facts: Facts, change: Change) -> Iterator[float]:
    """Seconds for which a recorded change counts, for each rule that looks back at it."""
    rules = facts.rules
    if change.added and change.action is not Action.FIRST_PLAN:
        yield from (limit.period for limit in rules.up.limits)
    if change.removed:
        yield from (limit.period for limit in rules.down.limits)
    if change.scarce is not None:
        yield REMEMBERED
    if change.reason is ScalingReason.SLO_MISSED:
        yield MISSED_FOR
    if facts.demand.lower_bound or change.reason is ScalingReason.SLO_MISSED:
        yield rules.down.window
