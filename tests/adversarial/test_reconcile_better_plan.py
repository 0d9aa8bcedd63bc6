"""Whether a standing plan is left: by what both held where both were tried, since a higher bound may hold less."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from hetserve.base.units import QPS, MicroDollarsPerHour
from hetserve.planning.plan import Counts, EvaluatedConfiguration, Plan, RankedConfiguration
from hetserve.planning.problem import Problem
from hetserve.reconcile.deployments.build import deployment_name
from testing.operator import SimulatedOperator, decided
from testing.scenes import CPU_TYPE, GPU_TYPE, rm2_scene

STANDING, NEW = {GPU_TYPE: 3, CPU_TYPE: 6}, {GPU_TYPE: 4, CPU_TYPE: 2}
BOUND = 100.0


@dataclass(frozen=True)
class Case:
    """Bound of the new plan, and what the standing one (bound 100) and the new one held; None: was not tried."""

    bound: float
    standing_held: float | None
    new_held: float | None
    left: bool
    harm: str


CASES = {
    "less bound, holds more": Case(95.0, 80.0, 90.0, left=True, harm="a plan that holds a ninth less stays for ever"),
    "more bound, holds less": Case(120.0, 90.0, 80.0, left=False, harm="instances move to a plan that holds less"),
    "more bound, holds hardly more": Case(120.0, 90.0, 93.0, left=False, harm="instances move for 3 %"),
    "the standing one holds nothing": Case(95.0, 0.0, 10.0, left=True, harm="what keeps the SLO at no rate stays"),
    "only the new one was tried": Case(95.0, None, 300.0, left=False, harm="a simulated rate is taken for a bound"),
    "nothing was tried, more bound": Case(120.0, None, None, left=True, harm="bounds do not count any more"),
    "nothing was tried, hardly more": Case(103.0, None, None, left=False, harm="instances move for 3 %"),
}


@pytest.mark.parametrize("name", CASES)
async def test_a_standing_plan_is_left_for_what_holds_more(name: str) -> None:
    case = CASES[name]
    later = False

    def planner(problem: Problem) -> Plan:
        base = replace(decided(problem), evaluated=())
        return _new(problem, base, case) if later else _of(problem, base, STANDING, BOUND)

    sim = SimulatedOperator(planner)
    sim.add(*rm2_scene())
    await sim.converge()
    later = True
    sim.restart()
    await sim.converge()
    expected = NEW if case.left else STANDING
    assert sim.replicas() == {deployment_name("rm2", kind): count for kind, count in expected.items()}, case.harm


def _new(problem: Problem, base: Plan, case: Case) -> Plan:
    tried = ((NEW, case.bound, case.new_held), (STANDING, BOUND, case.standing_held))
    evaluated = tuple(
        EvaluatedConfiguration(RankedConfiguration(_counts(problem, held), _cost(problem, held), QPS(bound)), QPS(rate))
        for held, bound, rate in tried
        if rate is not None
    )
    return replace(_of(problem, base, NEW, case.bound), evaluated=evaluated)


def _of(problem: Problem, base: Plan, held: dict[str, int], bound: float) -> Plan:
    return replace(base, counts=_counts(problem, held), cost=_cost(problem, held), bound_qps=QPS(bound))


def _counts(problem: Problem, held: dict[str, int]) -> Counts:
    return tuple((option.name, held[option.name]) for option in problem.types)


def _cost(problem: Problem, held: dict[str, int]) -> MicroDollarsPerHour:
    return MicroDollarsPerHour(sum(option.price * held[option.name] for option in problem.types))
