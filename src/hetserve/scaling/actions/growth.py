"""Scaling up: more instances where the load exceeds what is planned, throughout its window; no type loses any.

What is planned counts once, launching or not. So a load that stays too high while instances launch adds no more.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from hetserve.base.units import QPS
from hetserve.demand.windows import surely_missed
from hetserve.planning.formatting import qps_text, share_text
from hetserve.planning.plan import summary
from hetserve.scaling.context import ScalingContext, calm_from, look_at
from hetserve.scaling.dead_band import MOST_GROWTH
from hetserve.scaling.decision import Action, Decision, Limit, ScalingReason
from hetserve.scaling.facts import Facts
from hetserve.scaling.plans.answers import Ask, Pending, Unanswered
from hetserve.scaling.plans.capacity import Holds
from hetserve.scaling.plans.counts import is_same, total
from hetserve.scaling.plans.found import FoundPlan, NothingFits, plan_or_reach, plan_words
from hetserve.scaling.plans.problems import growing_problem, narrowed, up_to_grid
from hetserve.scaling.scarcity import newly_scarce
from hetserve.scaling.steps import fewer_added, room


@dataclass(frozen=True, slots=True)
class Shortage:
    """Why there are too few instances.

    load: to plan for. needed: queries/s that a plan must hold in simulation so that the load is the wanted share of it.
    """

    reason: ScalingReason
    words: str
    load: QPS
    needed: QPS


def is_short(facts: Facts, holds: QPS) -> bool:
    """Whether what is in force is too little: for its load, or as an instance finds no place.

    holds: queries/s that it holds by its record, since no planner has been asked yet.
    """
    context = look_at(facts).with_capacity(Holds(holds, "by its record"))
    return newly_scarce(facts, context.counts) is not None or _cause(context) is not None


def scale_up(context: ScalingContext, ask: Ask) -> Decision | None:
    """The decision to add instances, or why they are not added; None: nothing asks for more."""
    cause = _cause(context)
    if cause is None:
        return None
    limit = _limit(context)
    if limit is not None:
        held = context.measured.capacity if limit.reason is ScalingReason.AT_MAXIMUM else None
        return context.hold(cause.reason, f"{cause.words}; {limit.words}", limit, held=held)
    found = _more(context, cause.needed, ask)
    if isinstance(found, Pending):
        return context.waits(f"{cause.words}; a plan for {qps_text(cause.load)}", growing=True)
    if isinstance(found, NothingFits):
        held = context.measured.capacity
        return context.hold(cause.reason, f"{cause.words}; no plan: {found.why}", found.limit, held=held)
    if isinstance(found, Unanswered):
        return context.hold(ScalingReason.PLANNER_FAILED, f"{cause.words}; no plan: {found.why}")
    return _step(context, found, cause)


def _limit(context: ScalingContext) -> Limit | None:
    """What allows no more instances, whatever the planner says."""
    if not context.facts.pause.adds:
        return Limit(ScalingReason.PAUSED, f"spec.pause is {context.facts.pause}: the load asks for more instances")
    most = context.facts.rules.most
    if most is not None and context.instances >= most:
        return Limit(ScalingReason.AT_MAXIMUM, f"spec.scaling.maxInstances is {most}")
    return None


def _cause(context: ScalingContext) -> Shortage | None:
    """Why there are too few instances; None: there are enough, or the window is not known."""
    rules, seen = context.facts.rules, context.measured
    low, forecast, holds = seen.lowest, seen.forecast, seen.capacity
    if low is None or forecast is None or holds is None:
        return None
    limit = rules.trigger * holds
    against = (
        f"{share_text(rules.trigger)} of the {qps_text(holds)} that {summary(context.counts)} hold{context.by_mix}"
    )
    if low > limit:
        words = f"at least {qps_text(low)} throughout {rules.up.window:g} s, above {against}"
        return _above(context, low, ScalingReason.LOAD_ABOVE_CAPACITY, words)
    if forecast > limit:
        words = f"{qps_text(low)} and rising to {qps_text(forecast)} until new instances serve, above {against}"
        return _above(context, low, ScalingReason.TREND_ABOVE_CAPACITY, words)
    return _slo_missed(context, low, holds)


def _above(context: ScalingContext, low: QPS, reason: ScalingReason, words: str) -> Shortage:
    load = _load(context, low)
    return Shortage(reason, words, load, up_to_grid(load / context.facts.rules.saturation))


def _slo_missed(context: ScalingContext, low: QPS, holds: QPS) -> Shortage | None:
    """Queries are late throughout the window though all that is planned serves: more than demand alone says.

    Not where chance explains them, nor if the instances hold twice what the load needs: then it is for no want of them.
    """
    facts, slo = context.facts, context.facts.problem.slo
    if facts.now < _judged_from(context) or not misses_slo(facts):
        return None
    load = _load(context, low)
    needed = load / facts.rules.saturation
    if holds >= MOST_GROWTH * needed:
        return None
    words = (
        f"fewer than {slo.percentile:.10g} % of the queries met the SLO throughout {facts.rules.up.window:g} s at "
        f"{qps_text(low)}, though {summary(context.counts)} hold {qps_text(holds)} in simulation"
    )
    return Shortage(ScalingReason.SLO_MISSED, words, load, up_to_grid(max(needed, holds) * (1 + facts.rules.tolerance)))


def late_until(facts: Facts) -> float | None:
    """Until when late queries do not count [Unix seconds]; infinity: not all that is planned serves. None: they do."""
    if facts.in_force is None:
        return None
    judged = _judged_from(look_at(facts))
    return judged if facts.now < judged else None


def misses_slo(facts: Facts) -> bool:
    """Whether more queries were late throughout the window of scaling up than chance makes."""
    window = max(facts.rules.up.window, facts.demand.step)
    return surely_missed(facts.demand, facts.problem.slo.percentile / 100, window)


def _judged_from(context: ScalingContext) -> float:
    """From when on late queries count [Unix seconds]; infinity: not all that is planned serves."""
    return calm_from(context.facts, context.counts) if context.is_settled else math.inf


def _load(context: ScalingContext, low: QPS) -> QPS:
    """The load to plan for [queries/s]: the highest of the window and what the trend adds.

    Up to the tolerance, the highest of the longer window of scaling down counts too: what swings by no more than the
    tolerance asks for one change, not for one at each new height. low: the lowest of the window; it stands for a
    highest that is not known, as of a lower bound, which is looked for in two windows of the rate.
    """
    rules, recent, high = context.facts.rules, context.recent, context.measured.highest
    recent = low if recent is None else recent
    wide = recent if high is None else min(high, low * (1 + rules.tolerance))
    load = max(recent, wide) + context.rise
    if context.facts.demand.lower_bound:
        load *= 1 + rules.tolerance  # only what was completed is counted
    return QPS(min(load, max(MOST_GROWTH * low, recent)))


def _more(context: ScalingContext, needed: QPS, ask: Ask) -> FoundPlan | Pending | Unanswered:
    """The plan that loses no instance and holds `needed` queries/s, or the most within reach."""
    facts, held = context.facts, dict(context.counts)
    caps = {name: max(most, held.get(name, 0)) for name, most in context.caps.items()}
    scarce = narrowed(facts.problem, caps)
    found = plan_or_reach(growing_problem(facts.problem, facts.rules, context.counts, needed, caps), ask, scarce)
    if not isinstance(found, FoundPlan) or found.held is not None or not is_same(found.counts, context.counts):
        return found
    # The planner's trials let the same counts pass, by luck of the draws or as it has not tried them.
    needed = up_to_grid(needed * (1 + facts.rules.tolerance))
    return plan_or_reach(growing_problem(facts.problem, facts.rules, context.counts, needed, caps), ask, scarce)


def _step(context: ScalingContext, found: FoundPlan, cause: Shortage) -> Decision:
    """The change as far as step policies allow it."""
    facts, after, limits = context.facts, found.counts, found.limits
    added = total(after) - context.instances
    if added <= 0 and found.held is None:
        why = f"{plan_words(found.plan)} are planned for {qps_text(cause.load)}, which are in force"
        return context.hold(ScalingReason.PLANNER_FAILED, f"{cause.words}; no plan of more instances: {why}")
    if added <= 0:
        held = found.held or context.measured.capacity
        return context.hold(cause.reason, f"{cause.words}; {limits[0].words}", *limits, held=held)
    most = room(facts.rules.up, "up", context.instances, facts.changes, facts.now)
    if added > most:
        limit = Limit(ScalingReason.STEP_POLICY, f"scaleUp.policies allow {most} of {added} more instances now")
        limits = (limit, *limits)
        after = fewer_added(context.counts, after, most, facts.problem)
    if most == 0:
        return context.hold(cause.reason, f"{cause.words}; {limits[0].words}", *limits)
    words = f"{cause.words}; planned for {qps_text(cause.load)}: {plan_words(found.plan)}"
    return context.change(
        Action.SCALE_UP, cause.reason, words, after, *limits, load=cause.load, plan=found.plan, held=found.held
    )
