"""What keeps a service from more than the most within reach: money, a number of instances, room, or nothing at all."""

from __future__ import annotations

from collections.abc import Collection

from hetserve.api.conditions import Reason
from hetserve.planning.formatting import money_text
from hetserve.planning.plan import Counts, Plan
from hetserve.planning.problem import Problem, TypeOption
from hetserve.scaling.decision import ScalingReason
from hetserve.scaling.plans.counts import cost_of, total
from hetserve.scaling.plans.servable import serves


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
