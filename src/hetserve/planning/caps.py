"""Leaves out limits of the cluster that cannot change a plan, so that fewer changes of the cluster ask for another."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final

from hetserve.planning.plan import NOTICEABLE, WIDEST_BUDGET
from hetserve.planning.problem import Problem, TypeOption
from hetserve.planning.rates import throughput

_BY_CAPACITY: Final = ("ilp", "greedy", "homogeneous", "exhaustive")
"""Planners that count the rate of each type over the whole mix: others may use more of a type that serves a part."""


def without_slack_caps(problem: Problem, declared: Problem) -> Problem:
    """The problem, with the declared limit of each type of which the cluster has more than any plan could use.

    declared: the same problem without facts of the cluster. The problem's planner gives both the same plan, except for
    "at most" in `refusals` (flow orders types that are equal in all else by their limits, and may take another).
    A problem with pools comes back as it is: there, limits and running instances also decide what launches.
    """
    if problem.pools:
        return problem
    if problem.objective == "MaxThroughput":
        # The running ones matter only for what is free in a pool.
        pairs = zip(problem.types, declared.types, strict=True)
        problem = replace(problem, types=tuple(replace(o, running=d.running) for o, d in pairs))
    useful = _useful(problem)
    return replace(problem, types=tuple(map(_relaxed, problem.types, declared.types, useful)))


def _relaxed(option: TypeOption, declared: TypeOption, useful: int | None) -> TypeOption:
    cap = option.max_instances
    if useful is None or cap is None or cap < max(useful, option.min_instances, 1):
        return option
    return replace(option, max_instances=declared.max_instances)


def _useful(problem: Problem) -> tuple[int | None, ...]:
    """Per type, a number of instances that no plan or next step exceeds; None: not known. 0: it serves no batch."""
    if problem.objective == "MaxThroughput" or (problem.load is not None and problem.planned_by not in _BY_CAPACITY):
        used = _bought(problem)
    else:
        used = (None,) * len(problem.types) if problem.load is None else _carrying(problem, problem.load)
    total = problem.most_total
    return used if total is None else tuple(total if one is None else min(one, total) for one in used)


def _carrying(problem: Problem, load: float) -> tuple[int | None, ...]:
    rates = [throughput(option.profile, problem.mix) or 0.0 for option in problem.types]
    # The least cost carries the load with less than one instance to spare, beside the least instances wanted, of a
    # type and in all.
    wanted = math.fsum(option.min_instances * rate for option, rate in zip(problem.types, rates, strict=True))
    carried = load / problem.saturation_threshold + max(rates) * (1 + problem.least_total) + wanted
    return tuple(
        _enough(problem, option, carried * (1 + NOTICEABLE) / rate) if rate else 0
        for option, rate in zip(problem.types, rates, strict=True)
    )


def _bought(problem: Problem) -> tuple[int | None, ...]:
    """What the widest budget of a next step buys."""
    if problem.budget is None:
        return (None,) * len(problem.types)
    return tuple(int(problem.budget * WIDEST_BUDGET) // max(option.price, 1) for option in problem.types)


def _enough(problem: Problem, option: TypeOption, alone: float) -> int | None:
    """alone: instances of the type that carry the next step alone."""
    bought = 0 if problem.budget is None else problem.budget // max(option.price, 1)
    return max(math.ceil(alone) + 1, bought) if math.isfinite(alone) else None
