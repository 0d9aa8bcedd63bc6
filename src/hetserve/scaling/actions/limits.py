"""Changes that no load asks for: limits, types or the budget changed, or a type has no room."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from hetserve.base.units import QPS, MicroDollarsPerHour
from hetserve.planning.formatting import money_text, qps_text
from hetserve.planning.plan import Counts, summary
from hetserve.planning.problem import Problem
from hetserve.planning.rates import throughput
from hetserve.scaling.context import ScalingContext, standing_load
from hetserve.scaling.decision import Action, Decision, Limit, ScalingReason
from hetserve.scaling.plans.answers import Ask, Pending, Unanswered
from hetserve.scaling.plans.counts import cost_of, covers, is_same, total
from hetserve.scaling.plans.found import FoundPlan, NothingFits, plan_or_reach, plan_words
from hetserve.scaling.plans.problems import free_problem, growing_problem, narrowed, up_to_grid
from hetserve.scaling.scarcity import newly_scarce

_ADDS: Final = (ScalingReason.BELOW_MINIMUM, ScalingReason.TYPE_SCARCE)
_WITHHELD: Final = {
    ScalingReason.LIMITS_CHANGED: "what runs is not brought within the limits",
    ScalingReason.BELOW_MINIMUM: "the instances that the minimum asks for are not added",
    ScalingReason.TYPE_SCARCE: "no other type takes the place of one without room",
}
"""What a pause holds back, without figures: they would move at each look."""


@dataclass(frozen=True, slots=True)
class BrokenLimit:
    """A limit that the counts in force do not keep. scarce: the type without room."""

    reason: ScalingReason
    words: str
    scarce: str | None = None


def enforce_limits(context: ScalingContext, ask: Ask) -> Decision | None:
    """The decision to keep every limit again; None: all are kept, or what has no room is not needed."""
    broken = next(_broken(context), None)
    if broken is None:
        return None
    load = standing_load(context)
    pause = context.facts.pause
    may = broken.reason is ScalingReason.BUDGET_CUT or (pause.adds if broken.reason in _ADDS else pause.removes)
    if not may:
        limit = Limit(ScalingReason.PAUSED, f"spec.pause is {pause}: {_WITHHELD[broken.reason]}")
        return context.hold(broken.reason, f"{broken.words}; {limit.words}", limit)
    if load is None:
        return context.hold(ScalingReason.LOAD_UNKNOWN, f"{broken.words}; no load is known to plan for")
    scarce = narrowed(context.facts.problem, _caps(context, broken))
    return _mended(context, broken, load, plan_or_reach(_problem(context, broken, load), ask, scarce))


def _mended(
    context: ScalingContext, broken: BrokenLimit, load: QPS, found: FoundPlan | Pending | Unanswered
) -> Decision | None:
    if isinstance(found, Pending):
        return context.waits(f"{broken.words}; a plan for {qps_text(load)}")
    if broken.reason is ScalingReason.BUDGET_CUT:
        return _within_budget(context, broken, found, load)
    if isinstance(found, NothingFits):
        return context.hold(broken.reason, f"{broken.words}; no plan: {found.why}", found.limit, held=QPS(0.0))
    if isinstance(found, Unanswered):
        return context.hold(ScalingReason.PLANNER_FAILED, f"{broken.words}; no plan: {found.why}")
    if broken.scarce and found.held is None and _action(context.counts, found.counts) is Action.SCALE_DOWN:
        return None  # fewer instances are for the load to ask for, once its window is known
    return _changed(context, broken, found, load)


def _broken(context: ScalingContext) -> Iterator[BrokenLimit]:
    facts, rules = context.facts, context.facts.rules
    assert facts.in_force is not None  # noqa: S101  the caller has checked
    cost, budget = cost_of(context.counts, facts.problem), facts.problem.budget
    if budget is not None and cost > budget:
        words = f"{summary(context.counts)} cost {money_text(cost)}, the budget is {money_text(budget)}"
        yield BrokenLimit(ScalingReason.BUDGET_CUT, words)
    known = {option.name: option for option in facts.allowed.types}
    gone = [name for name, n in facts.in_force.counts if n > 0 and name not in known]
    if gone:
        yield BrokenLimit(ScalingReason.LIMITS_CHANGED, f"{', '.join(gone)} can no longer be used")
    over = [name for name, n in context.counts if name in known and n > known[name].most]
    if over:
        most = ", ".join(f"{known[name].most}x{name}" for name in over)
        yield BrokenLimit(ScalingReason.LIMITS_CHANGED, f"{summary(context.counts)} are more than {most}")
    if rules.most is not None and context.instances > rules.most:
        words = f"{context.instances} instances, spec.scaling.maxInstances is {rules.most}"
        yield BrokenLimit(ScalingReason.LIMITS_CHANGED, words)
    if context.instances < rules.least:
        words = f"{context.instances} instances, spec.scaling.minInstances is {rules.least}"
        yield BrokenLimit(ScalingReason.BELOW_MINIMUM, words)
    held = dict(context.counts)
    under = [o for o in facts.allowed.types if held.get(o.name, 0) < min(o.min_instances, o.most)]
    if under:
        words = ", ".join(f"{held.get(o.name, 0)}x{o.name} (at least {o.min_instances})" for o in under)
        yield BrokenLimit(ScalingReason.BELOW_MINIMUM, f"{words}: too few instances of a type")
    scarce = newly_scarce(facts, context.counts)
    if scarce is not None:
        words = f"no room for an instance of {scarce} for {facts.waiting[scarce]:.0f} s, longer than it takes to launch"
        yield BrokenLimit(ScalingReason.TYPE_SCARCE, words, scarce)


def _problem(context: ScalingContext, broken: BrokenLimit, load: QPS) -> Problem:
    facts, needed, caps = context.facts, up_to_grid(load / context.facts.rules.saturation), _caps(context, broken)
    if broken.reason in _ADDS:
        return growing_problem(facts.problem, facts.rules, context.counts, needed, caps)
    problem = free_problem(facts.problem, facts.rules, context.counts, needed, caps)
    return _as_declared(problem, facts.allowed)


def _caps(context: ScalingContext, broken: BrokenLimit) -> Mapping[str, int]:
    """The most instances of types without room."""
    if broken.scarce is None:
        return context.caps
    return {**context.caps, broken.scarce: context.facts.bound.get(broken.scarce, 0)}


def _as_declared(problem: Problem, declared: Problem) -> Problem:
    """What is in force counts as placed, but no longer above a limit that somebody declared."""
    most = {option.name: option.max_instances for option in declared.types}
    types = []
    for option in problem.types:
        limit = most.get(option.name)
        has = limit is not None and option.most > limit
        types.append(replace(option, max_instances=limit) if has else option)
    return replace(problem, types=tuple(types))


def _within_budget(context: ScalingContext, broken: BrokenLimit, found: FoundPlan | Unanswered, load: QPS) -> Decision:
    """What the budget still buys; where no planner says, what runs without the instances that hold least per dollar."""
    facts = context.facts
    carried = isinstance(found, FoundPlan) and found.held is None
    if facts.keeps_over_budget and not carried:
        words = f"{broken.words}; spec.budget.whenTooLow is Keep, so what runs stays"
        return context.hold(broken.reason, words, Limit(broken.reason, words), held=context.measured.capacity)
    if isinstance(found, FoundPlan):
        return _changed(context, broken, found, load, Action.SHRINK)
    assert facts.problem.budget is not None  # noqa: S101  it is too low
    after = affordable(context.counts, facts.problem, facts.problem.budget)
    limit = Limit(ScalingReason.BUDGET_CUT, f"no plan: {found.why}")
    words = f"{broken.words}; {summary(after)} from now on"
    return context.change(Action.SHRINK, broken.reason, words, after, limit, load=load, held=QPS(0.0))


def affordable(counts: Counts, problem: Problem, budget: MicroDollarsPerHour) -> Counts:
    """Counts without as many instances as cost too much: those of the least capacity per dollar go first."""
    held = dict(counts)
    for option in sorted(
        problem.types, key=lambda o: ((throughput(o.profile, problem.mix) or 0.0) / o.price, -o.price, o.name)
    ):
        over = cost_of(tuple(held.items()), problem) - budget
        if over > 0:
            held[option.name] -= min(held[option.name], -(-over // option.price))
    return tuple(held.items())


def _changed(
    context: ScalingContext, broken: BrokenLimit, found: FoundPlan, load: QPS, action: Action | None = None
) -> Decision:
    assert context.facts.in_force is not None  # noqa: S101  a limit of it is broken
    before, after, limits = context.facts.in_force.counts, found.counts, found.limits
    if is_same(after, before) and broken.scarce is None:
        return context.hold(broken.reason, f"{broken.words}; no other counts keep the limits", *limits, held=found.held)
    if broken.scarce is not None and not _is_worth(context, found):
        words = f"{broken.words}; nothing else carries more: {limits[0].words}"
        return context.hold(broken.reason, words, *limits, held=found.held)
    words = f"{broken.words}; planned for {qps_text(load)}: {plan_words(found.plan)}"
    made = action or _action(before, after)
    return context.change(
        made, broken.reason, words, after, *limits, load=load, plan=found.plan, held=found.held, scarce=broken.scarce
    )


def _is_worth(context: ScalingContext, found: FoundPlan) -> bool:
    """Whether leaving instances without room adds any that have it."""
    bound = tuple((name, min(n, context.facts.bound.get(name, 0))) for name, n in context.counts)
    return found.held is None or total(found.counts) > total(bound)


def _action(before: Counts, after: Counts) -> Action:
    if covers(after, before):
        return Action.SCALE_UP
    return Action.SCALE_DOWN if covers(before, after) else Action.REPLACE
