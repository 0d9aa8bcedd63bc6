"""One way in: the planner that fits the objective, its plan checked independently before anyone applies it."""

from __future__ import annotations

import dataclasses
from typing import Protocol, cast

from hetserve.api.conditions import Reason
from hetserve.planning.check import violations
from hetserve.planning.evaluator import Evaluator
from hetserve.planning.minimum import unattainable
from hetserve.planning.outcome import infeasible
from hetserve.planning.plan import Plan
from hetserve.planning.problem import Problem
from hetserve.planning.validate import problem_error
from hetserve.registry.planners import PLANNERS, default_planner, evaluating


class Planner(Protocol):
    """What the function of a planner is; `hetserve.registry.planners` lists them."""

    def __call__(self, problem: Problem, evaluate: Evaluator | None, seed: int | None, /) -> Plan:
        """Plan for one service; a planner that tries nothing ignores evaluate, one that draws nothing seed."""
        ...


def plan(
    problem: Problem, planner: str | None = None, evaluate: Evaluator | None = None, seed: int | None = None
) -> Plan:
    """Decide for one service; planner: a name in PLANNERS, None: the default of the objective.

    evaluate: what a configuration holds, for the planners that try configurations; None: kairos-plus and robust
    simulate quickly, exhaustive compares bounds. seed: of that quick simulation, None: the default; the others draw
    nothing. Never raises for a problem that a user made: what cannot be planned comes back with feasible=False, the
    reason and a message; a defect of a planner as PlannerFailed. Raises ValueError for an unknown planner, or an
    evaluator for one that takes none.
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
    """The plan itself if it is infeasible or passes the checker, else an infeasible one that says what broke."""
    broken = violations(problem, made) if made.feasible else ()
    if not broken:
        return made
    refused = infeasible(
        problem, made.planner, Reason.PLANNER_FAILED, "the checker refused the plan: " + "; ".join(broken)
    )
    return dataclasses.replace(refused, ranking=made.ranking)
