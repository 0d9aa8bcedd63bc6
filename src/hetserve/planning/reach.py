"""Beside plans for a load: the most within reach, and what counts hold; and all questions, as values to send."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from hetserve.base.units import QPS
from hetserve.planning.formatting import money_text, qps_text
from hetserve.planning.plan import Counts, Plan, Trial, summary
from hetserve.planning.problem import Problem, TypeOption
from hetserve.planning.registry import checked, guarded, plan, refusal, trial

JUDGE = "flow"
"""The planner that answers, whichever plans for the load: what holds does not depend on who chose it."""


@dataclass(frozen=True, slots=True)
class Capacity:
    """Queries/s that counts hold within the SLO. tried: in simulation; else by the flow program and queueing theory."""

    held: QPS
    tried: bool


def most_within_reach(problem: Problem, *, quick: bool = False) -> Plan:
    """The plan of the most load that limits, totals, pools and the budget allow, for a MinCost problem.

    Made for a load that cannot be carried; types keep their `min_instances`. The plan is feasible, and its message says
    what it carries of the load; `capacity_qps` is its fluid rate, `ceiling_qps` what no mix within reach exceeds.
    quick: an untried plan will do; its `held_qps` is None. Planner flow answers for every planner. Infeasible with the
    reasons of `plan`, and with SpecInvalid where neither a budget nor a limit bounds the instances. Raises ValueError
    for another objective.
    """
    from hetserve.planning.flow.planner import plan_most  # noqa: PLC0415  as planners are loaded when asked

    if problem.objective != "MinCost":
        raise ValueError(f"objective {problem.objective}: what is within reach is asked for MinCost")
    asked = replace(problem, objective="MaxThroughput", load=None, planner=JUDGE, unshared=())
    made = guarded(asked, JUDGE, lambda: refusal(asked, JUDGE) or checked(asked, plan_most(asked, quick=quick)))
    return _of_load(problem, made) if made.feasible else made


def _of_load(problem: Problem, made: Plan) -> Plan:
    """The plan of the most throughput as one for a part of the load."""
    carried = made.held_qps if made.held_qps is not None else sum(flow.qps for flow in made.flow)
    of = "" if problem.load is None else f" of {problem.load:.1f}"
    how = "in simulation" if made.tried else "by the program, not tried"
    words = f"carries {carried:.1f}{of} q/s {how}: {summary(made.counts)} for {money_text(made.cost)}"
    most = (
        "" if made.ceiling_qps is None else f"; nothing within reach can carry more than {qps_text(made.ceiling_qps)}"
    )
    return replace(made, message=words, verdict=words + most, bound_qps=None, capacity_qps=made.bound_qps)


def for_capacity(problem: Problem) -> Problem:
    """The problem without what the capacity of counts does not depend on: problems alike in the rest ask the same."""
    return Problem(
        service="",
        objective="MinCost",
        slo=problem.slo,
        mix=problem.mix,
        types=tuple(TypeOption(one.name, one.price, one.profile) for one in problem.types),
        saturation_threshold=1.0,
        launch_weight=0.0,
        policy=problem.policy,
    )


def capacity_of(problem: Problem, counts: Counts, *, quick: bool = False) -> Capacity:
    """The highest rate [queries/s] at which counts keep the SLO under the dispatch policy that will serve.

    counts: instances per type, in any order; types that are left out have none. It is a figure of simulation, of seeded
    draws: equal questions have equal answers, and more instances may seem to hold up to some percent less. Where there
    are too many instances to try, or `quick` is asked for, it is what the flow program and queueing theory say, mostly
    a little less. Nothing of the load, budget, limits or planner matters (see `for_capacity`). Raises ValueError for a
    type that the problem does not have, and for fewer than no instances.
    """
    from hetserve.planning.flow.planner import capacity  # noqa: PLC0415  as planners are loaded when asked

    held = dict(counts)
    names = [option.name for option in problem.types]
    for name, count in counts:
        if name not in names:
            raise ValueError(f"type {name!r} is not of the problem; there are: {', '.join(names)}")
        if count < 0:
            raise ValueError(f"{count} instances of {name}: must be 0 or more")
    rate, tried = capacity(for_capacity(problem), tuple((name, held.get(name, 0)) for name in names), quick=quick)
    return Capacity(QPS(rate), tried)


WorkKind = Literal["Decision", "MostWithinReach", "Capacity"]
JobResult = Plan | Trial | Capacity
"""What a planner answers: a trial or a capacity where counts were given."""


@dataclass(frozen=True, slots=True)
class PlannerJob:
    """kind: a plan for a problem or, of counts, a trial; the plan of the most load; what counts hold.

    quick: an untried answer will do.
    """

    problem: Problem
    counts: Counts | None = None
    quick: bool = False
    kind: WorkKind = "Decision"


def done(work: PlannerJob) -> JobResult:
    """The answer. Raises ValueError for a capacity without counts, and as the function that answers."""
    if work.kind == "MostWithinReach":
        return most_within_reach(work.problem, quick=work.quick)
    if work.kind == "Capacity":
        if work.counts is None:
            raise ValueError("the capacity of no counts is asked for: give the instances of each type")
        return capacity_of(work.problem, work.counts, quick=work.quick)
    if work.counts is not None:
        return trial(work.problem, work.counts)
    return plan(work.problem, quick=work.quick)
