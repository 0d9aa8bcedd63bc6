"""A plan for a load, or the most within reach where none carries it, and what keeps that from more."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from hetserve.api.conditions import Reason
from hetserve.base.units import QPS
from hetserve.planning.formatting import money_text, qps_text
from hetserve.planning.plan import Counts, Plan, summary
from hetserve.planning.problem import Problem, TypeOption
from hetserve.planning.reach import PlannerJob, WorkKind
from hetserve.scaling.decision import Limit, ScalingReason
from hetserve.scaling.plans.answers import Ask, Pending, Unanswered
from hetserve.scaling.plans.capacity import is_servable, serves
from hetserve.scaling.plans.counts import cost_of, total

_TOO_MUCH: Final = frozenset((Reason.CAPACITY_TOO_LOW, Reason.BUDGET_TOO_LOW))


@dataclass(frozen=True, slots=True)
class FoundPlan:
    """A plan. held: queries/s of the most within reach; None: the plan carries the load. limits: why it is no more."""

    plan: Plan
    held: QPS | None = None
    limits: tuple[Limit, ...] = ()

    @property
    def counts(self) -> Counts:
        return self.plan.counts


@dataclass(frozen=True, slots=True)
class NothingFits(Unanswered):
    """Budget, limits, cluster or SLO allow no instances that serve at all. limit: which of them, in words."""

    limit: Limit


def plan_or_reach(
    problem: Problem, ask: Ask, scarce: Collection[str] = frozenset()
) -> FoundPlan | Pending | Unanswered:
    """The plan for the problem's load, or what holds most. Unanswered: neither is to be had, and why.

    scarce: types of which the problem allows fewer than there may be room for.
    """
    made = _plan("Decision", problem, ask)
    if not isinstance(made, Plan) or made.feasible:
        return made if not isinstance(made, Plan) else FoundPlan(made)
    if made.reason == Reason.NO_TYPE_MEETS_SLO and not is_servable(problem, problem.mix):
        return NothingFits(made.message, Limit(ScalingReason.BEYOND_REACH, made.message))
    if made.reason not in _TOO_MUCH:
        return Unanswered(made.message)
    most = _plan("MostWithinReach", problem, ask)
    if not isinstance(most, Plan):
        return most
    if not most.feasible:
        return _nothing(most, scarce)
    held, reason = most.held_qps or most.qps or QPS(0.0), what_binds(problem, made, most.counts, scarce)
    words = (
        f"{qps_text(problem.load or 0)} are to be held in simulation, {bound_words(problem, reason, scarce)} "
        f"{qps_text(held)}: {made.message}"
    )
    return FoundPlan(most, held, (Limit(reason, words),))


def _nothing(most: Plan, scarce: Collection[str]) -> Unanswered:
    """What is left where not even the most within reach serves. most: refused for any load."""
    if most.reason == Reason.NO_TYPE_MEETS_SLO:
        reason = ScalingReason.BEYOND_REACH
    elif most.reason not in _TOO_MUCH:
        return Unanswered(most.message)
    elif most.reason == Reason.BUDGET_TOO_LOW:
        reason = ScalingReason.BEYOND_BUDGET
    else:
        reason = ScalingReason.TYPE_SCARCE if scarce else ScalingReason.BEYOND_ROOM
    return NothingFits(most.message, Limit(reason, most.message))


def _plan(kind: WorkKind, problem: Problem, ask: Ask) -> Plan | Pending | Unanswered:
    answer = ask(PlannerJob(problem, kind=kind))
    if isinstance(answer, Plan) and answer.reason == Reason.PLANNER_FAILED:
        return Unanswered(answer.message)
    if isinstance(answer, Plan | Pending | Unanswered):
        return answer
    return Unanswered("the planner answered without a plan")


def plan_words(plan: Plan) -> str:
    """``3xt4 at 0.216 $/h (flow); runner-up: 1xv100 at 0.573 $/h, why not``."""
    line = f"{summary(plan.counts)} at {money_text(plan.cost)} ({plan.planner})"
    line = f"{line}, not tried" if plan.tried is False else line
    if plan.runner_up is None:
        return line
    other = f"{summary(plan.runner_up.counts)} at {money_text(plan.runner_up.cost)}"
    return f"{line}; runner-up: {other}" + (f", {plan.why_not_runner_up}" if plan.why_not_runner_up else "")


def what_binds(problem: Problem, refused: Plan, most: Counts, scarce: Collection[str]) -> ScalingReason:
    """What keeps `most`, the counts that hold the most within reach, from holding more.

    refused: why the load is not carried. scarce: types of which the problem allows fewer than there may be room for.
    With as many instances as are allowed in all, money is it only where the planner says that dearer ones would do.
    """
    useful = [option for option in problem.types if _is_useful(option, problem)]
    roomy = [option for option in useful if has_room(problem, option, most)]
    at_total = problem.most_total is not None and total(most) >= problem.most_total
    too_dear = not all(_is_affordable(problem, option, most) for option in roomy)
    if too_dear and (refused.reason == Reason.BUDGET_TOO_LOW or not at_total):
        return ScalingReason.BEYOND_BUDGET
    if at_total:
        return ScalingReason.AT_MAXIMUM
    full = [option.name for option in useful if option not in roomy]
    if any(name in scarce for name in full):
        return ScalingReason.TYPE_SCARCE
    return ScalingReason.BEYOND_ROOM if full else ScalingReason.BEYOND_REACH


def has_room(problem: Problem, option: TypeOption, counts: Counts) -> bool:
    """Whether one more instance of a type is within its limit and what its pool has free."""
    held = dict(counts)
    if held.get(option.name, 0) >= option.most:
        return False
    held[option.name] = held.get(option.name, 0) + 1
    for pool in problem.pools:
        if pool.name != option.pool:
            continue
        mine = [one for one in problem.types if one.pool == pool.name]
        new = [(one.demand, max(held.get(one.name, 0) - one.running, 0)) for one in mine]
        for resource, free in enumerate(pool.free.all):
            if option.demand.all[resource] and sum(demand.all[resource] * n for demand, n in new) > max(free, 0):
                return False
    return True


def bound_words(problem: Problem, reason: ScalingReason, scarce: Collection[str]) -> str:
    """What allows no more, with its verb: ``the budget of 0.6 $/h allows``."""
    if reason is ScalingReason.BEYOND_BUDGET and problem.budget is not None:
        return f"the budget of {money_text(problem.budget)} allows"
    if reason is ScalingReason.AT_MAXIMUM:
        return f"spec.scaling.maxInstances ({problem.most_total}) allows"
    if reason is ScalingReason.TYPE_SCARCE:
        return f"there is no room for more of {', '.join(sorted(scarce))}, and what else can be had allows"
    if reason is ScalingReason.BEYOND_REACH:
        return "no number of instances on offer holds more than"
    return "the nodes and the types' maxInstances allow"


def _is_useful(option: TypeOption, problem: Problem) -> bool:
    return any(serves(option, problem, batch) for batch in problem.mix.batches)


def _is_affordable(problem: Problem, option: TypeOption, counts: Counts) -> bool:
    return problem.budget is None or cost_of(counts, problem) + option.price <= problem.budget
