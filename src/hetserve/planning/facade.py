"""One way in: the planner that fits the objective, its plan checked independently before anyone applies it."""

from __future__ import annotations

import dataclasses
from typing import Final

from hetserve.api.conditions import Reason
from hetserve.planning.check import violations
from hetserve.planning.kairos import plan_kairos
from hetserve.planning.outcome import infeasible
from hetserve.planning.plan import Plan
from hetserve.planning.problem import Problem
from hetserve.planning.validate import problem_error

PLANNERS: Final = ("kairos", "ilp")
_DEFAULT: Final = {"MaxThroughput": "kairos", "MinCost": "ilp"}


def plan(problem: Problem, planner: str | None = None) -> Plan:
    """Decide for one service; planner: one of PLANNERS, None: kairos for MaxThroughput, ilp for MinCost.

    Never raises for a problem that a user made: what cannot be planned comes back with feasible=False, the
    reason and a message; a defect of a planner as PlannerFailed. Raises ValueError for an unknown planner.
    """
    name = planner or _DEFAULT[problem.objective]
    if name not in PLANNERS:
        raise ValueError(f"planner {name!r} is unknown; there are: {', '.join(PLANNERS)}")
    error = problem_error(problem)
    if error is not None:
        return infeasible(problem, name, Reason.SPEC_INVALID, error)
    try:
        made = _run(problem, name)
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


def _run(problem: Problem, name: str) -> Plan:
    if name == "kairos":
        return plan_kairos(problem)
    # PuLP takes a tenth of a second to import, which MaxThroughput need not pay.
    from hetserve.planning.ilp import plan_ilp  # noqa: PLC0415

    return plan_ilp(problem)
