"""Runs the planner that fits the objective and checks its plan."""

from __future__ import annotations

import dataclasses
from typing import Protocol, cast

from hetserve.api.conditions import Reason
from hetserve.planning.check import violations
from hetserve.planning.plan import Evaluator, Plan, infeasible
from hetserve.planning.problem import Problem
from hetserve.planning.validate import problem_error, unattainable
from hetserve.registry.planners import PLANNERS, default_planner, evaluating


class Planner(Protocol):
    """A planner; `hetserve.registry.planners` lists them."""

    def __call__(self, problem: Problem, evaluate: Evaluator | None, seed: int | None, /) -> Plan:
        """Plan for one service; a planner ignores what it does not need."""
        ...


def plan(
    problem: Problem, planner: str | None = None, evaluate: Evaluator | None = None, seed: int | None = None
) -> Plan:
    """Decides for one service; planner: a name in PLANNERS, None: the objective's default.

    evaluate: what a configuration holds; None: kairos-plus and robust simulate quickly, exhaustive compares bounds.
    seed: of that simulation. What cannot be planned is a plan with feasible=False, a planner's defect PlannerFailed.
    Raises ValueError for an unknown planner, or an evaluator for one that takes none.
    """
    name = planner or default_planner(problem.objective)
    if name not in PLANNERS:
        raise ValueError(f"planner {name!r} is unknown; there are: {', '.join(PLANNERS.names)}")
    if evaluate is not None and not PLANNERS[name].evaluates:
        raise ValueError(f"planner {name} tries nothing; those that do: {', '.join(evaluating())}")
    error = problem_error(problem)
    if error is not None:
        return infeasible(problem, name, Reason.SPEC_INVALID, error)
    impossible = unattainable(problem)
    if impossible is not None:
        return infeasible(problem, name, *impossible)
    try:
        made = cast("Planner", PLANNERS[name].load())(problem, evaluate, seed)
    except Exception as failure:
        return infeasible(
            problem, name, Reason.PLANNER_FAILED, f"planner {name} failed: {type(failure).__name__}: {failure}"
        )
    return checked(problem, made)


def checked(problem: Problem, made: Plan) -> Plan:
    """The plan if it is infeasible or passes the checker, else an infeasible one."""
    broken = violations(problem, made) if made.feasible else ()
    if not broken:
        return made
    refused = infeasible(
        problem, made.planner, Reason.PLANNER_FAILED, "the checker refused the plan: " + "; ".join(broken)
    )
    return dataclasses.replace(refused, ranking=made.ranking)
