"""Plans that hold nothing: the one way in which planners say that and why they cannot."""

from __future__ import annotations

from hetserve.api.conditions import Reason
from hetserve.planning.plan import Plan, Refusal
from hetserve.planning.problem import Problem
from hetserve.units import MicroDollarsPerHour


def infeasible(
    problem: Problem, planner: str, reason: Reason, message: str, refusals: tuple[Refusal, ...] = ()
) -> Plan:
    """Plan of no instances, with the reason and the numbers."""
    return Plan(
        feasible=False,
        reason=reason,
        message=message,
        planner=planner,
        counts=tuple((option.name, 0) for option in problem.types),
        cost=MicroDollarsPerHour(0),
        refusals=problem.left_out + refusals,
        verdict=f"infeasible: {message}",
    )
