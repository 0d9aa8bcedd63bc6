"""Runs the planner that fits the objective and checks its plan."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import cast

from hetserve.api.conditions import Reason
from hetserve.base.units import Millionths
from hetserve.extras import install_hint
from hetserve.planning.check import violations
from hetserve.planning.plan import Counts, Evaluator, Plan, Trial, infeasible
from hetserve.planning.problem import Problem
from hetserve.planning.sharing import with_sharing
from hetserve.planning.tolerances import with_tolerances
from hetserve.planning.validate import problem_error, unattainable
from hetserve.registry.members import load
from hetserve.registry.planners import PLANNERS, PlannerMember, evaluating


def plan(
    problem: Problem,
    planner: str | None = None,
    evaluate: Evaluator | None = None,
    seed: int | None = None,
    *,
    quick: bool = False,
) -> Plan:
    """Decides for one service; planner: a name in PLANNERS, None: the problem's.

    evaluate: what a configuration holds; None: kairos-plus simulates, exhaustive compares bounds.
    seed: of that simulation. quick: a planner that tries its plan answers without. What cannot be planned is a plan
    with feasible=False, a planner's defect PlannerFailed. Raises ValueError for an unknown planner, or an evaluator for
    one that takes none, ModuleNotFoundError where the extra `planning` is not installed.
    """
    name = planner or problem.planned_by
    if name not in PLANNERS:
        raise ValueError(f"planner {name!r} is unknown; there are: {', '.join(PLANNERS.names)}")
    if evaluate is not None and not PLANNERS[name].evaluates:
        raise ValueError(f"planner {name} tries nothing; those that do: {', '.join(evaluating())}")
    member = PLANNERS[name]

    def decide() -> Plan:
        own = {} if quick else _tolerances(member, problem, seed)
        refused = None if own else refusal(problem, name)
        if refused is not None:
            return refused
        made = _tolerant(problem, own, lambda o: refusal(o, name) or _made(member, o, evaluate, seed, quick))
        return _weighed(with_tolerances(problem, dict(made.tolerances)), made)

    return guarded(problem, name, decide)


def refusal(problem: Problem, planner: str) -> Plan | None:
    """The answer to an unattainable problem; None: it is attainable."""
    impossible = unattainable(problem)
    return None if impossible is None else infeasible(problem, planner, *impossible)


def guarded(problem: Problem, planner: str, decide: Callable[[], Plan]) -> Plan:
    """What `decide` answers; infeasible for a problem that is invalid, and for a planner's defect.

    Raises ModuleNotFoundError where the extra `planning` is not installed.
    """
    error = problem_error(problem, planner)
    if error is not None:
        return infeasible(problem, planner, Reason.SPEC_INVALID, error)
    try:
        return decide()
    except Exception as failure:
        if isinstance(failure, ModuleNotFoundError) and install_hint(failure) is not None:
            raise
        message = f"planner {planner} failed: {type(failure).__name__}: {failure}"
        return infeasible(problem, planner, Reason.PLANNER_FAILED, message)


def _weighed(problem: Problem, made: Plan) -> Plan:
    """The plan, checked, with what its verdict says of sharing; a defect there costs the words, not the plan."""
    made = checked(problem, made)
    try:
        return with_sharing(problem, made, plan)
    except Exception as failure:
        words = f"what sharing saves is not known: {type(failure).__name__}: {failure}"
        return dataclasses.replace(made, verdict=f"{made.verdict}; {words}")


def has_judge(problem: Problem) -> bool:
    """Whether the problem's planner tries what it claims, so that `trial` can judge other counts."""
    planner = problem.planned_by
    return planner in PLANNERS and PLANNERS[planner].judge is not None


def trial(problem: Problem, counts: Counts) -> Trial:
    """What counts of any origin do by the judge of the problem's planner. Raises ValueError if it has none."""
    judge = PLANNERS[problem.planned_by].judge
    if judge is None:
        raise ValueError(f"planner {problem.planned_by} tries nothing")
    return cast("Callable[[Problem, Counts], Trial]", load(judge))(problem, counts)


def _tolerances(member: PlannerMember, problem: Problem, seed: int | None) -> Mapping[str, Millionths]:
    """Of planners that try their plans: others keep more in hand than one instance has at its own tolerance."""
    if member.judge is None or not any(option.own for option in problem.types):
        return {}
    from hetserve.planning.flow.tolerance import own_tolerances  # noqa: PLC0415  as planners are loaded when asked

    return own_tolerances(problem, seed)


def _tolerant(problem: Problem, own: Mapping[str, Millionths], decide: Callable[[Problem], Plan]) -> Plan:
    """The plan where types have tolerances of the service's own, as far as one instance of them is in it.

    Where trials that prove find that one does not carry the load, the type is planned as if it had none. A budget that
    is too low with them is answered so: one instance carries the load at its own tolerance, and costs least there.
    """
    made = decide(with_tolerances(problem, own))
    many = {name for name, count in made.counts if count > 1} if made.feasible else own.keys()
    if many & own.keys():
        usual = _tolerant(problem, {name: s for name, s in own.items() if name not in many}, decide)
        return made if made.reason == usual.reason == Reason.BUDGET_TOO_LOW else usual
    counts = dict(made.counts)
    return dataclasses.replace(made, tolerances=tuple(sorted((name, s) for name, s in own.items() if counts[name])))


def _made(member: PlannerMember, problem: Problem, evaluate: Evaluator | None, seed: int | None, quick: bool) -> Plan:
    decide = cast("Callable[..., Plan]", member.load())
    if quick and member.judge is not None:  # a planner that tries its plan, and can answer without
        return dataclasses.replace(decide(problem, None, seed, quick=True), provisional=True)
    return decide(problem, evaluate, seed)


def checked(problem: Problem, made: Plan) -> Plan:
    """The plan if it is infeasible or passes the checker, else an infeasible one."""
    broken = violations(problem, made) if made.feasible else ()
    if not broken:
        return made
    refused = infeasible(
        problem, made.planner, Reason.PLANNER_FAILED, "the checker refused the plan: " + "; ".join(broken)
    )
    return dataclasses.replace(refused, ranking=made.ranking)
