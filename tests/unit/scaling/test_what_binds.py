"""Which limit keeps a service from more than the most within reach."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hetserve.api.conditions import Reason
from hetserve.base.units import QPS, Seconds
from hetserve.planning.formatting import money_text
from hetserve.planning.plan import infeasible
from hetserve.planning.problem import LatencySlo, Pool, Problem, ResourceAmounts
from hetserve.scaling import Action, Change, Facts, ScalingReason, ScalingRules, decide
from hetserve.scaling.plans.answers import Answers
from hetserve.scaling.plans.found import what_binds
from testing.planning import hetsev_types
from testing.scaling import NOW, facts, scaled_problem, steady


def with_limits(v100: int | None, t4: int | None, **fields: Any) -> Problem:
    fast, slow = hetsev_types()
    return scaled_problem((replace(fast, max_instances=v100), replace(slow, max_instances=t4)), **fields)


def in_pool(free: int, **fields: Any) -> Problem:
    """Each instance takes a whole GPU of which so many are free beside two T4 that run."""
    whole = ResourceAmounts(gpus=1)
    v100, t4 = (replace(option, pool="gpus", demand=whole) for option in hetsev_types())
    pool = Pool("gpus", ResourceAmounts(gpus=free))
    return scaled_problem((v100, replace(t4, running=2)), pools=(pool,), **fields)


def left_for_room(ago: float = 30.0) -> Change:
    """T4 had no place: two of them have one."""
    return Change(
        NOW - ago, Action.SCALE_UP, ScalingReason.TYPE_SCARCE, (("t4", 3),), (("t4", 2),), QPS(40.0), scarce="t4"
    )


ALLOWS = {
    ScalingReason.BEYOND_ROOM: "the nodes and the types' maxInstances allow",
    ScalingReason.BEYOND_BUDGET: "the budget of {budget} allows",
    ScalingReason.AT_MAXIMUM: "spec.scaling.maxInstances (4) allows",
    ScalingReason.TYPE_SCARCE: "there is no room for more of t4, and what else can be had allows",
}
BEYOND: dict[str, tuple[ScalingReason, Problem, dict[str, Any]]] = {
    "maxInstances of both types": (ScalingReason.BEYOND_ROOM, with_limits(1, 6), {}),
    "GPUs that are taken": (ScalingReason.BEYOND_ROOM, in_pool(3), {}),
    "money": (ScalingReason.BEYOND_BUDGET, with_limits(9, 9, budget="0.9"), {}),
    "money, though not even all that limits allow would do": (
        ScalingReason.BEYOND_BUDGET,
        with_limits(2, 2, budget="0.9"),
        {},
    ),
    "room and not the money that is left": (ScalingReason.BEYOND_ROOM, with_limits(1, 6, budget="9"), {}),
    "the total": (ScalingReason.AT_MAXIMUM, with_limits(9, 9), {"rules": ScalingRules(most=4)}),
    "the total of dear types": (
        ScalingReason.BEYOND_BUDGET,
        with_limits(40, 40, budget="2"),
        {"rules": ScalingRules(most=30)},
    ),
    "a scarce type": (ScalingReason.TYPE_SCARCE, with_limits(2, 99), {"changes": (left_for_room(),)}),
    "room, where the type is scarce no longer": (
        ScalingReason.BEYOND_ROOM,
        with_limits(2, 9),
        {"changes": (left_for_room(200.0),)},
    ),
    "room, where the scarce type has all that is allowed": (
        ScalingReason.BEYOND_ROOM,
        with_limits(2, 2),
        {"changes": (left_for_room(),)},
    ),
}


def growing(problem: Problem, **fields: Any) -> Facts:
    return facts(steady(900.0), {"t4": 2}, problem=problem, **fields)


@pytest.mark.parametrize("what", BEYOND)
def test_a_load_beyond_reach_is_limited_by(what: str) -> None:
    reason, problem, fields = BEYOND[what]
    found = decide(growing(problem, **fields), Answers(quick=True))
    assert not found.within_reach
    (limit,) = found.limits
    assert limit.reason is reason, limit.words
    allows = ALLOWS[reason].format(budget=money_text(problem.budget or 0))
    assert limit.words.startswith(f"1130.0 q/s are to be held in simulation, {allows}"), "900 queries/s at 80 %"


@pytest.mark.parametrize("what", BEYOND)
def test_the_same_is_said_once_the_most_is_in_force(what: str) -> None:
    reason, problem, fields = BEYOND[what]
    first = growing(problem, **fields)
    most = dict(decide(first, Answers(quick=True)).counts or ())
    again = facts(steady(900.0), most, problem=problem, **{**fields, "bound": {**most, "t4": min(most["t4"], 2)}})
    found = decide(again, Answers(quick=True))
    assert (found.action, found.limits[0].reason) == (Action.HOLD, reason)


def test_where_every_type_could_have_one_more_and_it_would_not_help_the_load_is_beyond_reach() -> None:
    problem = with_limits(9, 9, budget="9")
    refused = infeasible(problem, "flow", Reason.BUDGET_TOO_LOW, "the latencies vary too much")
    assert what_binds(problem, refused, (("v100", 1), ("t4", 1)), ()) is ScalingReason.BEYOND_REACH
    assert what_binds(problem, refused, (("v100", 9), ("t4", 1)), ()) is ScalingReason.BEYOND_ROOM


@pytest.mark.parametrize("held", [None, {"t4": 2}])
def test_an_slo_that_no_type_keeps_is_beyond_reach_whatever_it_costs_and_no_failure_of_the_planner(
    held: dict[str, int] | None,
) -> None:
    slow = replace(with_limits(9, 9), slo=LatencySlo(Seconds(0.01), 99.0))
    found = decide(facts(steady(60.0), held, problem=slow), Answers(quick=True))
    assert (found.action, found.limits[0].reason) == (Action.HOLD, ScalingReason.BEYOND_REACH)
    assert not found.within_reach


def test_a_type_in_force_that_keeps_the_slo_no_more_is_not_beyond_reach_of_the_others() -> None:
    """A scale-up takes nothing away, so its planner finds none; that is no limit of what is on offer."""
    fast_only = replace(with_limits(9, 9), slo=LatencySlo(Seconds(0.03), 99.0))
    found = decide(facts(steady(60.0), {"t4": 2}, problem=fast_only), Answers(quick=True))
    assert found.reason is ScalingReason.PLANNER_FAILED
    assert not found.limits
