"""What counts hold: by simulation, as planner `flow` tries its plans; where that is too long, by the flow program."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

from hetserve.base.units import QPS
from hetserve.planning.plan import Counts, Trial
from hetserve.planning.problem import Problem
from hetserve.planning.rates import throughput
from hetserve.planning.registry import has_judge
from hetserve.planning.slo import serves_whole_mix
from hetserve.scaling.counts import total
from hetserve.scaling.problems import capacity_problem
from hetserve.scaling.questions import Ask, Kind, Pending, Question, Unanswered

_REMEMBERED = 4096


@dataclass(frozen=True, slots=True)
class Capacity:
    """Queries/s that counts hold within the SLO. how: by what, in words."""

    qps: QPS
    how: str


def capacity(problem: Problem, counts: Counts, ask: Ask) -> Capacity | Pending | Unanswered:
    """What counts hold under the problem's mix, SLO and policy, whatever the cluster is.

    A planner that tries nothing counts the rates of its types, as it plans; so does this.
    """
    if not total(counts):
        return Capacity(QPS(0.0), "without instances")
    bare, held = capacity_problem(problem, counts)
    if not has_judge(bare):
        return Capacity(_by_rates(bare, held), f"by the rates that planner {bare.planned_by} counts")
    answer = ask(Question(Kind.CAPACITY, bare, held))
    if isinstance(answer, Pending | Unanswered):
        return answer
    if not isinstance(answer, Trial):
        return Unanswered(answer.message)
    if answer.held is not None:
        return Capacity(answer.held, "in simulation")
    return Capacity(_by_program(bare, held), "by the flow program and their number; not tried")


def _by_rates(problem: Problem, counts: Counts) -> QPS:
    held = dict(counts)
    usable = [option for option in problem.types if serves_whole_mix(option, problem, problem.slo.percentile)]
    return QPS(math.fsum((throughput(o.profile, problem.mix) or 0.0) * held[o.name] for o in usable))


@lru_cache(_REMEMBERED)
def _by_program(problem: Problem, counts: Counts) -> QPS:
    from hetserve.planning.flow.classes import class_table  # noqa: PLC0415  the solver loads late
    from hetserve.planning.flow.program import CEILING, FluidRates  # noqa: PLC0415
    from hetserve.planning.flow.untried import saturation_for  # noqa: PLC0415

    table = class_table(problem)
    values = table.values(counts)
    return QPS(FluidRates(table, CEILING)(values) * saturation_for(table, values))
