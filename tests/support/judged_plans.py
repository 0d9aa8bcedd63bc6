"""A planner with a judge whose answers a test writes down, for the scene of rm2."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from hetserve.api.conditions import Reason
from hetserve.base.units import QPS, MicroDollarsPerHour
from hetserve.planning.plan import Counts, Plan, Trial
from hetserve.planning.problem import Problem
from hetserve.registry.planners import PLANNERS, PlannerMember
from testing.registered import extended
from testing.scenes import CPU_TYPE, GPU_TYPE

MEMBER: Final = PlannerMember(
    name="judged", where="judged_plans:answers", about="says what a test says", judge="judged_plans:answers"
)
BOUND: Final = 100.0
Mix = tuple[int, int]
"""Instances of the GPU type and of the CPU type."""


@contextmanager
def registered() -> Iterator[None]:
    with extended(PLANNERS, MEMBER):
        yield


def counts_of(problem: Problem, mix: Mix) -> Counts:
    held = {GPU_TYPE: mix[0], CPU_TYPE: mix[1]}
    return tuple((option.name, held[option.name]) for option in problem.types)


def plan_of(
    problem: Problem, mix: Mix, *, held: float | None = None, tried: bool | None = True, bound: float = BOUND
) -> Plan:
    """A feasible plan of planner `judged`; held, bound: queries/s."""
    cost = sum(option.price * n for option, (_, n) in zip(problem.types, counts_of(problem, mix), strict=True))
    most = problem.objective == "MaxThroughput"
    return Plan(
        reason=Reason.PLAN_FEASIBLE,
        message="",
        planner=MEMBER.name,
        counts=counts_of(problem, mix),
        cost=MicroDollarsPerHour(cost),
        bound_qps=QPS(bound) if most else None,
        capacity_qps=None if most else QPS(bound),
        verdict="as the test says",
        tried=tried,
        held_qps=None if held is None else QPS(held),
    )


@dataclass
class Script:
    """What planner and judge answer now. asked: the counts that were to be tried."""

    plan: Plan | None = None
    mix: Mix = (3, 6)
    held: float | None = BOUND
    tried: bool = True
    bound: float = BOUND
    trials: Mapping[Mix, Trial] = field(default_factory=dict)
    asked: list[Mix] = field(default_factory=list)

    def planner(self, problem: Problem) -> Plan:
        if self.plan is not None:
            return self.plan
        held = self.held if problem.objective == "MaxThroughput" else problem.load
        return plan_of(problem, self.mix, held=held if self.tried else None, tried=self.tried, bound=self.bound)

    def judge(self, _problem: Problem, counts: Counts) -> Trial:
        mix = dict(counts)[GPU_TYPE], dict(counts)[CPU_TYPE]
        self.asked.append(mix)
        return self.trials[mix]
