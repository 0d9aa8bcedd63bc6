"""Leaves out limits of the cluster that cannot change a plan, so that fewer changes of the cluster ask for another."""

from __future__ import annotations

from dataclasses import replace

from hetserve.planning.plan import WIDEST_BUDGET
from hetserve.planning.problem import Problem, TypeOption
from hetserve.units import MicroDollarsPerHour


def without_slack_caps(problem: Problem, declared: Problem) -> Problem:
    """The problem, with the declared limit of each type of which the cluster has more than any budget in play buys.

    declared: the same problem without facts of the cluster. The default planner of MaxThroughput gives both the same
    plan, except for "at most" in `refusals`. A problem of another objective, without a budget or with pools comes back
    as it is: there, limits and running instances also decide what launches.
    """
    if problem.objective != "MaxThroughput" or problem.budget is None or problem.pools:
        return problem
    budget = problem.budget
    pairs = zip(problem.types, declared.types, strict=True)
    return replace(problem, types=tuple(_relaxed(option, original, budget) for option, original in pairs))


def _relaxed(option: TypeOption, declared: TypeOption, budget: MicroDollarsPerHour) -> TypeOption:
    # The running ones matter only for what is free in a pool.
    option = replace(option, running=declared.running)
    bought = int(budget * WIDEST_BUDGET) // max(option.price, 1)
    slack = option.max_instances is not None and option.max_instances >= max(bought, option.min_instances, 1)
    return replace(option, max_instances=declared.max_instances) if slack else option
