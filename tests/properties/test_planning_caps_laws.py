"""Laws of caps without effect: a plan is the same with and without them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from hetserve.base.units import QPS, MicroDollarsPerHour
from hetserve.planning import Plan, Problem, plan
from hetserve.planning.inputs import without_slack_caps
from hetserve.planning.plan import WIDEST_BUDGET
from hetserve.reconcile.plans.planner import fits
from hetserve.registry.planners import OBJECTIVES, Objective, made_for
from testing.planning_strategies import cost_problems, throughput_problems


def _exact(objective: Objective) -> list[Any]:
    """Planners that choose alike with and without slack caps; flow orders types equal in all else by their limits.

    The one that simulates takes most of the time, and ranks as kairos does.
    """
    names = [name for name in made_for(objective) if name != "flow"]
    return [pytest.param(name, marks=pytest.mark.deep) if name == "kairos-plus" else name for name in names]


@st.composite
def observed(draw: st.DrawFn) -> tuple[Problem, Problem]:
    """A declared problem, and the same with what a cluster has: running instances and caps, many of them generous."""
    declared = draw(throughput_problems())
    declared = replace(declared, types=tuple(replace(option, running=0) for option in declared.types))
    budget = draw(st.sampled_from([declared.budget or 0, declared.budget or 0, 5_000, 1_000]))  # less than one costs
    declared = replace(declared, budget=MicroDollarsPerHour(budget))
    options = []
    for option in declared.types:
        edge = int(budget * WIDEST_BUDGET) // option.price
        held = draw(st.integers(0, 3) | st.sampled_from([edge - 1, edge, edge + 1, edge + 50]).map(lambda n: max(n, 0)))
        cap = held if option.max_instances is None else min(held, option.max_instances)
        options.append(replace(option, max_instances=cap, running=draw(st.integers(0, cap))))
    return declared, replace(declared, types=tuple(options))


@pytest.mark.parametrize("planner", _exact("MaxThroughput"))
@settings(max_examples=examples(100), deadline=None)
@given(pair=observed())
def test_a_cap_that_cannot_bind_changes_nothing_of_a_plan(planner: str, pair: tuple[Problem, Problem]) -> None:
    declared, problem = (replace(one, planner=planner) for one in pair)
    relaxed = without_slack_caps(problem, declared)
    assert _told(plan(relaxed)) == _told(plan(problem)), "a plan is taken for another problem's"


@given(pair=observed(), more=st.integers(1, 9))
def test_more_room_than_the_money_buys_is_the_same_problem(pair: tuple[Problem, Problem], more: int) -> None:
    declared, problem = pair
    budget = int(declared.budget or 0)
    ample = [int(budget * WIDEST_BUDGET) // option.price + option.min_instances + 1 for option in declared.types]
    roomy = replace(
        problem,
        types=tuple(replace(o, max_instances=most + more) for o, most in zip(problem.types, ample, strict=True)),
    )
    assert without_slack_caps(roomy, declared) == declared, "every pod that is bound asks for another plan"


@pytest.mark.parametrize("planner", _exact("MinCost"))
@settings(max_examples=examples(150), deadline=None)
@given(problem=cost_problems(), data=st.data())
def test_a_cap_that_cannot_bind_changes_nothing_of_the_least_cost(
    planner: str, problem: Problem, data: st.DataObject
) -> None:
    problem = replace(problem, planner=planner)
    declared = replace(problem, types=tuple(replace(o, running=0, max_instances=None) for o in problem.types))
    caps = st.integers(0, 3) | st.integers(0, 60) | st.integers(0, 5000)
    observed = replace(
        problem, types=tuple(replace(o, max_instances=o.running + data.draw(caps)) for o in problem.types)
    )
    relaxed = without_slack_caps(observed, declared)
    assert _told(plan(relaxed)) == _told(plan(observed))


@pytest.mark.parametrize("objective", OBJECTIVES)
@settings(max_examples=examples(25), deadline=None)
@given(data=st.data())
def test_a_flow_plan_without_slack_caps_fits_the_cluster_and_is_worth_as_much(
    objective: Objective, data: st.DataObject
) -> None:
    declared, problem = data.draw(observed())
    if objective == "MinCost":
        load = QPS(data.draw(st.integers(1, 100)))
        declared, problem = (replace(one, objective=objective, load=load) for one in (declared, problem))
    declared, problem = (replace(one, planner="flow") for one in (declared, problem))
    made, exact = plan(without_slack_caps(problem, declared)), plan(problem)
    assert made.feasible == exact.feasible
    assert fits(made.counts, problem), "it uses what the cluster does not have"
    assert made.cost <= exact.cost * 1.01 or objective == "MaxThroughput"
    assert (made.held_qps or 0) >= (exact.held_qps or 0) * 0.97


@given(problem=cost_problems(), more=st.integers(1, 9))
def test_flow_keeps_caps_that_no_budget_proves_slack(problem: Problem, more: int) -> None:
    declared = replace(problem, planner="flow", budget=None)
    roomy = replace(declared, types=tuple(replace(o, max_instances=10**6 + more) for o in problem.types))
    assert without_slack_caps(roomy, declared) == roomy


@given(problem=cost_problems().map(lambda p: replace(p, planner="ilp")), more=st.integers(1, 9))
def test_more_room_than_a_load_needs_is_the_same_problem(problem: Problem, more: int) -> None:
    declared = replace(problem, types=tuple(replace(o, running=0, max_instances=None) for o in problem.types))
    roomy = [
        replace(problem, types=tuple(replace(o, max_instances=10**6 + n) for o in problem.types)) for n in (0, more)
    ]
    assert without_slack_caps(roomy[0], declared) == without_slack_caps(roomy[1], declared)


def _told(made: Plan) -> Plan:
    """The plan without the refusals, which say "at most" of every cap."""
    return replace(made, refusals=())
