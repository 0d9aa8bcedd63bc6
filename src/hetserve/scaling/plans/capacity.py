"""What counts hold: as planner `flow` evaluates them, in simulation; planners that try nothing count rates alone.

And whether types can keep the SLO at all, however many instances there are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from hetserve.base.units import QPS
from hetserve.demand.mix import BatchMix
from hetserve.planning import reach
from hetserve.planning.plan import Counts, Plan
from hetserve.planning.problem import Problem, TypeOption
from hetserve.planning.rates import throughput
from hetserve.planning.reach import PlannerJob, for_capacity
from hetserve.planning.registry import has_judge
from hetserve.planning.slo import serves_whole_mix, within
from hetserve.scaling.plans.answers import Ask, Pending, Unanswered
from hetserve.scaling.plans.counts import nonzero, total


@dataclass(frozen=True, slots=True)
class Holds:
    """Queries/s that counts hold within the SLO. how: by what, in words."""

    qps: QPS
    how: str


def capacity(problem: Problem, counts: Counts, ask: Ask) -> Holds | Pending | Unanswered:
    """What counts hold under the problem's mix, SLO and policy, whatever the cluster is.

    A planner that tries nothing counts the rates of its types; so does this, or each plan would be too small at once.
    """
    if not total(counts):
        return Holds(QPS(0.0), "without instances")
    if not has_judge(problem):
        return Holds(by_rates(problem, counts), f"by the rates that planner {problem.planned_by} counts")
    answer = ask(capacity_work(problem, counts))
    if isinstance(answer, Pending | Unanswered):
        return answer
    if isinstance(answer, reach.Capacity):
        return Holds(
            answer.held, "in simulation" if answer.tried else "by the flow program and queueing theory, untried"
        )
    return Unanswered(answer.message if isinstance(answer, Plan) else "the planner answered with a trial")


def capacity_work(problem: Problem, counts: Counts) -> PlannerJob:
    """The question what counts hold: of types that have instances, without what the answer does not depend on."""
    held = nonzero(counts)
    names = dict(held)
    used = replace(problem, types=tuple(option for option in problem.types if option.name in names))
    return PlannerJob(for_capacity(used), held, kind="Capacity")


def by_rates(problem: Problem, counts: Counts) -> QPS:
    """Queries/s of types that serve the whole mix within the SLO, each by itself: HetSev's T_i."""
    held = dict(counts)
    usable = [option for option in problem.types if serves_whole_mix(option, problem, problem.slo.percentile)]
    return QPS(math.fsum((throughput(o.profile, problem.mix) or 0.0) * held.get(o.name, 0) for o in usable))


def is_servable(problem: Problem, mix: BatchMix) -> bool:
    """Whether the types can keep the SLO under a mix, however many there are.

    With planners that try plans, a share of queries as large as the percentile must find a type that is quick enough;
    the others want one type that is so for every size.
    """
    under, percentile = replace(problem, mix=mix), problem.slo.percentile
    if not has_judge(problem):
        return any(serves_whole_mix(option, under, percentile) for option in problem.types)
    quick = (
        share
        for batch, share in zip(mix.batches, mix.shares, strict=True)
        if any(serves(option, problem, batch) for option in problem.types)
    )
    return math.fsum(quick) >= percentile / 100


def serves(option: TypeOption, problem: Problem, batch: int) -> bool:
    """Whether a type keeps the SLO at a batch size."""
    return within(option.profile.quantile(batch, problem.slo.percentile), problem.slo.latency)
