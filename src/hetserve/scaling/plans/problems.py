"""The problem of a service, narrowed to what a decision may do.

What is planned counts once, whether it runs, launches or waits: `running` is at least the counts in force, and their
part of a pool that is not taken yet is not free.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from hetserve.base.units import QPS, MiB, MilliCPU, Percent
from hetserve.planning.plan import Counts
from hetserve.planning.problem import Pool, Problem, ResourceAmounts, TypeOption
from hetserve.planning.reach import PlannerJob
from hetserve.scaling.plans.counts import is_same
from hetserve.scaling.rules import ScalingRules

FINE: Final = 1.02
"""Ratio of neighbours: small against a tolerance of 10 %."""
COARSE: Final = 1.1
LEAST: Final = QPS(1e-3)
"""Queries/s; less is planned for as this."""
_ROUNDING: Final = 1e-9


def up_to_grid(load: float, ratio: float = FINE) -> QPS:
    """The least load of the grid that is no less [queries/s]; 0 stays 0.

    A load of the grid stays itself, so that a plan's own load makes no other question.
    """
    if load <= 0:
        return QPS(0.0)
    step = math.ceil(math.log(max(load, LEAST)) / math.log(ratio) - _ROUNDING)
    return QPS(float(f"{ratio**step:.9g}"))


def free_problem(problem: Problem, rules: ScalingRules, counts: Counts, load: QPS, caps: Mapping[str, int]) -> Problem:
    """Any counts within the service's totals.

    counts: in force. load: queries/s to hold in simulation. caps: most instances of scarce types.
    """
    held = dict(counts)
    types = tuple(_capped(_as_planned(option, held.get(option.name, 0)), caps) for option in problem.types)
    return replace(
        problem,
        objective="MinCost",
        load=load,
        saturation_threshold=1.0,
        types=types,
        pools=tuple(_less_planned(pool, problem, held) for pool in problem.pools),
        least_total=rules.least,
        most_total=rules.most,
    )


def growing_problem(
    problem: Problem, rules: ScalingRules, counts: Counts, load: QPS, caps: Mapping[str, int]
) -> Problem:
    """As `free_problem`, but no type loses an instance."""
    free, held = free_problem(problem, rules, counts, load, caps), dict(counts)
    return replace(free, types=tuple(_at_least(option, held.get(option.name, 0)) for option in free.types))


def shrinking_problem(problem: Problem, rules: ScalingRules, counts: Counts, load: QPS) -> Problem:
    """As `free_problem`, but no type gains an instance."""
    free, held = free_problem(problem, rules, counts, load, {}), dict(counts)
    types = tuple(_at_most(option, held.get(option.name, 0)) for option in free.types)
    return replace(free, types=types, pools=())


def narrowed(problem: Problem, caps: Mapping[str, int]) -> frozenset[str]:
    """Types of which caps allow fewer than the problem does."""
    return frozenset(option.name for option in problem.types if caps.get(option.name, option.most) < option.most)


def can_wait(work: PlannerJob, counts: Counts) -> bool:
    """Whether an answer only says how fewer instances would do; others may be missing meanwhile. counts: in force."""
    if work.counts is not None:
        return not is_same(work.counts, counts)
    held = dict(counts)
    return all(option.most <= held.get(option.name, 0) for option in work.problem.types)


def _as_planned(option: TypeOption, count: int) -> TypeOption:
    most = option.max_instances
    return replace(
        option,
        running=max(option.running, count),
        max_instances=None if most is None else max(most, count, option.min_instances),
    )


def _capped(option: TypeOption, caps: Mapping[str, int]) -> TypeOption:
    if option.name not in caps:
        return option
    most = min(option.most, caps[option.name])
    return replace(option, max_instances=most, min_instances=min(option.min_instances, most))


def _at_least(option: TypeOption, count: int) -> TypeOption:
    """A type that is capped below what is in force keeps what it may."""
    return replace(option, min_instances=max(option.min_instances, min(count, option.most)))


def _at_most(option: TypeOption, count: int) -> TypeOption:
    return replace(option, max_instances=count, min_instances=min(option.min_instances, count))


def _less_planned(pool: Pool, problem: Problem, held: Mapping[str, int]) -> Pool:
    """What is left of a pool when all that is planned has its place."""
    free = list(pool.free.all)
    for option, count in _waiting(pool, problem, held):
        for i, amount in enumerate(option.demand.all):
            free[i] = max(free[i] - amount * count, 0)
    cpu, memory, gpu_memory, compute = free
    return replace(pool, free=ResourceAmounts(MilliCPU(cpu), MiB(memory), MiB(gpu_memory), Percent(compute)))


def _waiting(pool: Pool, problem: Problem, held: Mapping[str, int]) -> Iterator[tuple[TypeOption, int]]:
    for option in problem.types:
        count = held.get(option.name, 0) - option.running
        if option.pool == pool.name and count > 0:
            yield option, count
