"""Configurations worth evaluating: Kairos's ten best bounds, every type alone, the best bounds without one type.

A noisy type that misleads the bound tends to be in all ten.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Final

from hetserve.base.units import QPS, MicroDollarsPerHour
from hetserve.planning.check import violations
from hetserve.planning.kairos.planner import plan_kairos
from hetserve.planning.plan import Counts, Plan, RankedConfiguration
from hetserve.planning.problem import Problem, TypeOption
from hetserve.planning.rates import throughput
from hetserve.planning.slo import serves_whole_mix

_PER_POOL: Final = 3
_MOST_POOLS: Final = 4


def candidates(problem: Problem, paper: Plan) -> tuple[RankedConfiguration, ...]:
    """Configurations to evaluate, the paper's pick first; all pass the checker.

    paper: a feasible plan of `plan_kairos`.
    """
    assert paper.bound_qps is not None  # noqa: S101  feasible plans of Kairos have a bound
    pick = RankedConfiguration(paper.counts, paper.cost, paper.bound_qps)
    found = {pick.counts: pick}
    for entry in (*paper.ranking, *homogeneous(problem, paper), *_without_a_type(problem, paper)):
        if entry.counts not in found and _allowed(problem, paper, entry):
            found[entry.counts] = entry
    return tuple(found.values())


def homogeneous(problem: Problem, paper: Plan) -> tuple[RankedConfiguration, ...]:
    """As many instances as allowed of every type that alone serves the whole mix."""
    alone = (_most(problem, paper, option) for option in problem.types if serves_whole_mix(option, problem))
    return tuple(entry for entry in alone if entry is not None)


def is_homogeneous(counts: Counts) -> bool:
    return sum(1 for _, count in counts if count) == 1


def _most(problem: Problem, paper: Plan, option: TypeOption) -> RankedConfiguration | None:
    rate = throughput(option.profile, problem.mix) or 0.0
    most = (problem.budget or 0) // option.price
    low, high = option.min_instances, min(most, option.most)

    def entry(count: int) -> RankedConfiguration:
        counts = tuple((other.name, count if other.name == option.name else 0) for other in problem.types)
        return RankedConfiguration(counts, MicroDollarsPerHour(count * option.price), QPS(count * rate))

    while low < high:
        middle = (low + high + 1) // 2
        if _allowed(problem, paper, entry(middle)):
            low = middle
        else:
            high = middle - 1
    return entry(low) if low else None


def _without_a_type(problem: Problem, paper: Plan) -> Iterator[RankedConfiguration]:
    held = [name for name, count in paper.counts if count][:_MOST_POOLS]
    for name in held:
        if name == problem.base:
            continue
        rest = tuple(dataclasses.replace(o, max_instances=0) if o.name == name else o for o in problem.types)
        best = plan_kairos(dataclasses.replace(problem, types=rest))
        yield from best.ranking[:_PER_POOL] if best.feasible else ()


def _allowed(problem: Problem, paper: Plan, entry: RankedConfiguration) -> bool:
    if problem.base is not None and not dict(entry.counts)[problem.base]:
        return False
    plan = dataclasses.replace(paper, counts=entry.counts, cost=entry.cost, bound_qps=entry.qps)
    return not violations(problem, plan)
