"""Scaling down: fewer instances where N-1 carry the largest load of the window; no type gains any.

N-1 must carry the load with the tolerance in hand, as HorizontalPodAutoscalers keep theirs in both directions: what is
removed at some load is not wanted again before the load rises by twice the tolerance.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from hetserve.base.units import QPS
from hetserve.demand.windows import is_late, surely_lower
from hetserve.planning.formatting import money_text, qps_text, share_text
from hetserve.planning.plan import Counts, Plan, summary
from hetserve.planning.reach import PlannerJob
from hetserve.scaling.context import MISSED_FOR, ScalingContext
from hetserve.scaling.dead_band import NO_LOAD, DeadBand
from hetserve.scaling.decision import Action, Decision, Limit, ScalingReason
from hetserve.scaling.facts import Facts
from hetserve.scaling.plans.answers import Ask, Pending
from hetserve.scaling.plans.capacity import Holds, capacity
from hetserve.scaling.plans.counts import cost_of, covers, in_order, total, without
from hetserve.scaling.plans.problems import shrinking_problem, up_to_grid
from hetserve.scaling.steps import fewer_removed, room


@dataclass(frozen=True, slots=True)
class Spare:
    """One instance fewer, and the queries/s that the others hold."""

    counts: Counts
    qps: QPS


def scale_down(context: ScalingContext, ask: Ask) -> Decision | None:
    """The decision to remove instances, or why they stay although fewer would do; None: fewer would not do."""
    facts, rules = context.facts, context.facts.rules
    load = shrinking_load(context)
    if load is None or context.instances <= rules.least or is_doubtful(context):
        return None
    spare = _spare(context, load, ask)
    if not isinstance(spare, Spare):
        waits = isinstance(spare, Pending)
        return context.waits("what one instance fewer holds", dead_band=_until_answered(context)) if waits else None
    words = (
        f"at most {qps_text(load)} throughout {rules.down.window:g} s, below "
        f"{share_text(rules.saturation / (1 + rules.tolerance))} of the {qps_text(spare.qps)} that "
        f"{summary(spare.counts)} hold{context.by_mix}"
    )
    if not facts.pause.removes:
        limit = Limit(ScalingReason.PAUSED, f"spec.pause is {facts.pause}: the load asks for fewer instances")
        return context.hold(ScalingReason.LOAD_FITS_ON_LESS, f"{words}; {limit.words}", limit)
    most = room(rules.down, "down", context.instances, facts.changes, facts.now)
    if most == 0:
        limit = Limit(ScalingReason.STEP_POLICY, "scaleDown.policies allow no instance fewer now")
        return context.hold(ScalingReason.LOAD_FITS_ON_LESS, f"{words}; {limit.words}", limit)
    fewer = _fewer(context, load, spare, ask)
    if isinstance(fewer, Pending):
        return context.waits(f"{words}; a plan for {qps_text(load)}")
    return _step(context, fewer, load, most, words)


def at_minimum(context: ScalingContext, ask: Ask) -> Limit | Pending | None:
    """What the declared minimum keeps though fewer would do; None: nothing. One instance always stays."""
    rules, load = context.facts.rules, shrinking_load(context)
    if load is None or not 1 < context.instances <= rules.least or is_doubtful(context):
        return None
    spare = _spare(context, load, ask)
    if not isinstance(spare, Spare):
        return spare
    words = (
        f"at most {qps_text(load)} throughout {rules.down.window:g} s, which {summary(spare.counts)} would carry; "
        f"spec.scaling.minInstances is {rules.least}"
    )
    return Limit(ScalingReason.AT_MINIMUM, words)


def shrinking_load(context: ScalingContext) -> QPS | None:
    """The load that must still be carried [queries/s]: the largest of the window, or what the trend leads to."""
    if context.measured.highest is None:
        return None
    forecast = context.measured.forecast
    return context.measured.highest if forecast is None else max(context.measured.highest, forecast)


def is_doubtful(context: ScalingContext) -> bool:
    """Whether the windows cannot say that there are too many instances."""
    if context.has_new_mix or _is_late(context):
        return True
    if stays_until(context.facts) is not None:
        return True
    if not context.facts.demand.lower_bound:
        return False
    # What is completed says what the load was only while all that was planned served.
    facts, window = context.facts, context.facts.rules.down.window
    return not context.is_settled or any(facts.now - change.at < window for change in facts.changes)


def stays_until(facts: Facts) -> float | None:
    """Until when what late queries asked for stays, as a largest load does [Unix seconds]; None: nothing does."""
    window = facts.rules.down.window
    ends = (change.at + window for change in facts.changes if change.reason is ScalingReason.SLO_MISSED)
    return max((end for end in ends if end > facts.now), default=None)


def _is_late(context: ScalingContext) -> bool:
    """Whether queries are late now."""
    facts = context.facts
    window = max(facts.rules.up.window, facts.demand.step)
    return is_late(facts.demand, facts.problem.slo.percentile / 100, window)


def _spare(context: ScalingContext, load: QPS, ask: Ask) -> Spare | Pending | None:
    """The dearest instance without which the others carry the load; None: there is none, or no answer."""
    holds = context.measured.capacity
    if holds is None or load > _usable(context, holds):
        return None
    waits = False
    for counts in _one_fewer(context):
        found = capacity(context.facts.problem, counts, ask)
        waits = waits or isinstance(found, Pending)
        if isinstance(found, Holds) and load <= _usable(context, found.qps):
            missed = was_missed(context, counts, load, ask)
            if missed is False:
                return Spare(counts, found.qps)
            waits = waits or isinstance(missed, Pending)
    return Pending() if waits else None


def quiet_loads(context: ScalingContext, ask: Ask) -> DeadBand | None:
    """The loads at which what is in force stays, and what limits it; None: not known, or a cheaper mix may pay."""
    rules, holds = context.facts.rules, context.measured.capacity
    if rules.replaces or not context.is_settled or holds is None:
        return None
    most = rules.trigger * holds
    if context.instances == 1:
        return context.dead_band(NO_LOAD, most)
    load, above = shrinking_load(context), _usable(context, holds)
    if load is None:
        return None
    if load <= above:
        fewer = _left_to_fewer(context, ask)
        if fewer is None or isinstance(fewer, Pending):
            return None if fewer is None else _until_answered(context)
        above = fewer
    if context.instances > rules.least or load > above:
        return context.dead_band(above, most)
    # The minimum keeps what is in force; while in doubt that is not said yet.
    dead_band = None if is_doubtful(context) else context.dead_band(NO_LOAD, most)
    return None if dead_band is None else replace(dead_band, until=above)


def _usable(context: ScalingContext, holds: QPS) -> QPS:
    """The largest load [queries/s] that is left to instances which hold so much: the tolerance stays in hand."""
    return QPS(holds * context.facts.rules.saturation / (1 + context.facts.rules.tolerance))


def _left_to_fewer(context: ScalingContext, ask: Ask) -> QPS | Pending | None:
    """The largest load [queries/s] that one instance fewer is left with; None: not known."""
    left = [QPS(0.0)]
    found = [(counts, capacity(context.facts.problem, counts, ask)) for counts in _one_fewer(context)]
    if any(isinstance(one, Pending) for _, one in found):
        return Pending()
    for counts, one in found:
        if not isinstance(one, Holds):
            return None
        missed = _missed_above(context, counts, _usable(context, one.qps), ask)
        if isinstance(missed, Pending):
            return missed
        left.append(missed)
    return max(left)


def _until_answered(context: ScalingContext) -> DeadBand | None:
    """While it is worked out what fewer instances hold: loads that need no more of them.

    The answer brings the next look, which sees how far the load has fallen by then.
    """
    holds = context.measured.capacity
    if holds is None or not context.is_settled:
        return None
    return context.dead_band(NO_LOAD, context.facts.rules.trigger * holds)


def _one_fewer(context: ScalingContext) -> Iterator[Counts]:
    """The counts in force without one instance of each type in turn, the dearest first."""
    held = dict(context.counts)
    for option in sorted(context.facts.problem.types, key=lambda o: (-o.price, o.name)):
        if held[option.name] > option.min_instances:
            yield without(context.counts, option.name)


def was_missed(context: ScalingContext, counts: Counts, load: QPS, ask: Ask) -> bool | Pending:
    """Whether counts that hold no less than these were seen to break the SLO at about this load."""
    missed = _missed_above(context, counts, load, ask)
    return missed if isinstance(missed, Pending) else missed < load


def _missed_above(context: ScalingContext, counts: Counts, load: QPS, ask: Ask) -> QPS | Pending:
    """Queries/s above which counts that hold no less than these were seen to break the SLO; `load`: at none below it.

    Whatever simulation says: it said that those hold the load, too. For a day: then it is tried again, as what was slow
    may have been another's doing.
    """
    found = load
    for change in context.facts.changes:
        recent = context.facts.now - change.at < MISSED_FOR
        if change.reason is not ScalingReason.SLO_MISSED or not recent or change.load is None:
            continue
        above = _lower_than(context.facts, change.load)
        if above >= found:
            continue
        less = _holds_no_more(context, counts, change.before, ask)
        if isinstance(less, Pending):
            return less
        found = above if less else found
    return found


def _lower_than(facts: Facts, planned: QPS) -> QPS:
    """Up to where a load is lower than the one that a plan was made for [queries/s]: by the tolerance and by no chance.

    By chance alone, what is too little would be gone back to again and again.
    """
    within = 1 + facts.rules.tolerance
    measured = planned / within if facts.demand.lower_bound else planned  # as `_load` of scaling up has added it
    return min(QPS(measured / within), surely_lower(QPS(measured), facts.demand.window))


def _holds_no_more(context: ScalingContext, counts: Counts, missed: Counts, ask: Ask) -> bool | Pending:
    """Whether counts hold no more than others would now; where that is not known, whether they have no more of any."""
    if covers(missed, counts):
        return True
    if covers(counts, missed):
        return False
    problem = context.facts.problem
    one, other = (capacity(problem, in_order(each, problem), ask) for each in (counts, missed))
    if isinstance(one, Pending) or isinstance(other, Pending):
        return Pending()
    return isinstance(one, Holds) and isinstance(other, Holds) and one.qps <= other.qps


def _fewer(context: ScalingContext, load: QPS, spare: Spare, ask: Ask) -> tuple[Counts, Plan | None] | Pending:
    """The cheapest counts within those in force that carry the load, and their plan; N-1 if the planner finds none."""
    facts = context.facts
    needed = up_to_grid(load / facts.rules.saturation)
    answer = ask(PlannerJob(shrinking_problem(facts.problem, facts.rules, context.counts, needed)))
    if isinstance(answer, Pending):
        return answer
    if not isinstance(answer, Plan) or not answer.feasible:
        return spare.counts, None
    missed = was_missed(context, answer.counts, load, ask)
    if isinstance(missed, Pending):
        return missed
    if missed or cost_of(answer.counts, facts.problem) >= cost_of(spare.counts, facts.problem):
        return spare.counts, None  # what the planner tried cost more, by luck of the draws or by the grid
    return answer.counts, answer


def _step(context: ScalingContext, fewer: tuple[Counts, Plan | None], load: QPS, most: int, words: str) -> Decision:
    """The change as far as step policies allow it: what is between carries the load too."""
    facts, (after, plan) = context.facts, fewer
    removed = context.instances - total(after)
    limits: tuple[Limit, ...] = ()
    if removed > most:
        limits = (Limit(ScalingReason.STEP_POLICY, f"scaleDown.policies allow {most} of {removed} fewer now"),)
        after = fewer_removed(context.counts, after, most, facts.problem)
    saved = cost_of(context.counts, facts.problem) - cost_of(after, facts.problem)
    words = f"{words}; {summary(after)} from now on, {money_text(saved)} less"
    reason = ScalingReason.LOAD_FITS_ON_LESS if load > 0 else ScalingReason.NO_LOAD
    return context.change(Action.SCALE_DOWN, reason, words, after, *limits, load=load, plan=plan)
