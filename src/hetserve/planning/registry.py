"""One way in: the planner that fits the objective, its plan checked independently before anyone applies it."""

from __future__ import annotations

import dataclasses
from importlib import import_module
from typing import Any, Final

from hetserve.api.conditions import Reason
from hetserve.planning.check import violations
from hetserve.planning.plan import Evaluator, Plan, infeasible
from hetserve.planning.problem import Problem
from hetserve.planning.validate import problem_error, unattainable

_WHERE: Final = {
    "kairos": "kairos.planner:plan_kairos",
    "kairos-plus": "kairos.plus:plan_kairos_plus",
    "ilp": "mincost.ilp:plan_ilp",
    "greedy": "mincost.greedy:plan_greedy",
    "homogeneous": "baselines.homogeneous:plan_homogeneous",
    "exhaustive": "baselines.exhaustive:plan_exhaustive",
    "robust": "robust.planner:plan_robust",
}
"""Planner to its module and function, imported on first use: PuLP takes a tenth of a second, compilers longer."""

PLANNERS: Final = tuple(_WHERE)
EVALUATING: Final = ("kairos-plus", "exhaustive", "robust")
"""Planners that try configurations by an evaluator."""

SEEDED: Final = ("kairos-plus", "robust")
"""Those of them that draw their own queries where they are given no evaluator."""

DEFAULTS: Final = {"MaxThroughput": "robust", "MinCost": "ilp"}
"""Objective to the planner of those who name none, the command line and the operator alike."""


def plan(
    problem: Problem, planner: str | None = None, evaluate: Evaluator | None = None, seed: int | None = None
) -> Plan:
    """Decide for one service; planner: one of PLANNERS, None: robust for MaxThroughput, ilp for MinCost.

    evaluate: what a configuration holds, for the planners in EVALUATING; None: kairos-plus and robust simulate
    quickly, exhaustive compares bounds. seed: of that quick simulation, None: the default; the others draw nothing.
    Never raises for a problem that a user made: what cannot be planned comes back with feasible=False, the
    reason and a message; a defect of a planner as PlannerFailed. Raises ValueError for an unknown planner, or an
    evaluator for one that takes none.
    """
    name = planner or DEFAULTS[problem.objective]
    if name not in PLANNERS:
        raise ValueError(f"planner {name!r} is unknown; there are: {', '.join(PLANNERS)}")
    if evaluate is not None and name not in EVALUATING:
        raise ValueError(f"planner {name} tries nothing; those that do: {', '.join(EVALUATING)}")
    error = problem_error(problem)
    if error is not None:
        return infeasible(problem, name, Reason.SPEC_INVALID, error)
    impossible = unattainable(problem)
    if impossible is not None:
        return infeasible(problem, name, *impossible)
    try:
        made = _run(problem, name, evaluate, seed)
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


def _run(problem: Problem, name: str, evaluate: Evaluator | None, seed: int | None) -> Plan:
    module, _, function = _WHERE[name].partition(":")
    run: Any = getattr(import_module(f"hetserve.planning.{module}"), function)
    drawn = {"seed": seed} if name in SEEDED else {}
    made = run(problem) if name not in EVALUATING else run(problem, evaluate, **drawn)
    assert isinstance(made, Plan)  # noqa: S101  what every planner module answers
    return made
