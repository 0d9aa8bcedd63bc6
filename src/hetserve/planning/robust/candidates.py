"""Configurations worth evaluating: Kairos's ten best bounds, every type alone, and the best bounds without a type.

The bound knows means only. Where it is misled by a noisy type, its ten best tend to hold that type all, so the pool is
also ranked without each auxiliary of the paper's pick.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Final

from hetserve.planning.check import violations
from hetserve.planning.kairos.planner import plan_kairos
from hetserve.planning.plan import Candidate, Counts, Plan
from hetserve.planning.problem import Problem, TypeOption
from hetserve.planning.rates import throughput, within, worst_latency
from hetserve.units import QPS, MicroDollarsPerHour

_PER_POOL: Final = 3
_MOST_POOLS: Final = 4


def candidates(problem: Problem, paper: Plan) -> tuple[Candidate, ...]:
    """What to evaluate, each with its bound and once only, the paper's pick first; all pass the independent checker.

    paper: a feasible plan of `plan_kairos`.
    """
    assert paper.bound_qps is not None  # noqa: S101  feasible plans of Kairos have a bound
    pick = Candidate(paper.counts, paper.cost, paper.bound_qps)
    found = {pick.counts: pick}
    for entry in (*paper.ranking, *homogeneous(problem, paper), *_without_a_type(problem, paper)):
        if entry.counts not in found and _allowed(problem, paper, entry):
            found[entry.counts] = entry
    return tuple(found.values())


def homogeneous(problem: Problem, paper: Plan) -> tuple[Candidate, ...]:
    """For every type that serves the whole mix within the SLO: as many of it alone as are allowed."""
    alone = (_most(problem, paper, option) for option in problem.types if _serves_all(problem, option))
    return tuple(entry for entry in alone if entry is not None)


def is_homogeneous(counts: Counts) -> bool:
    return sum(1 for _, count in counts if count) == 1


def _serves_all(problem: Problem, option: TypeOption) -> bool:
    return within(worst_latency(option.profile, problem.mix)[1], problem.slo.latency)


def _most(problem: Problem, paper: Plan, option: TypeOption) -> Candidate | None:
    """The largest allowed number of one type, by bisection: limits allow every number below one that they allow."""
    rate = throughput(option.profile, problem.mix) or 0.0
    most = (problem.budget or 0) // option.price
    low, high = option.min_instances, min(most, option.most)

    def entry(count: int) -> Candidate:
        counts = tuple((other.name, count if other.name == option.name else 0) for other in problem.types)
        return Candidate(counts, MicroDollarsPerHour(count * option.price), QPS(count * rate))

    while low < high:
        middle = (low + high + 1) // 2
        if _allowed(problem, paper, entry(middle)):
            low = middle
        else:
            high = middle - 1
    return entry(low) if low else None


def _without_a_type(problem: Problem, paper: Plan) -> Iterator[Candidate]:
    """The best bounds of the pool without each type of the pick in turn."""
    held = [name for name, count in paper.counts if count][:_MOST_POOLS]
    for name in held:
        if name == problem.base:
            continue
        rest = tuple(dataclasses.replace(o, max_instances=0) if o.name == name else o for o in problem.types)
        best = plan_kairos(dataclasses.replace(problem, types=rest))
        yield from best.ranking[:_PER_POOL] if best.feasible else ()


def _allowed(problem: Problem, paper: Plan, entry: Candidate) -> bool:
    if problem.base is not None and not dict(entry.counts)[problem.base]:
        return False  # whoever names a base wants it
    plan = dataclasses.replace(paper, counts=entry.counts, cost=entry.cost, bound_qps=entry.qps)
    return not violations(problem, plan)
