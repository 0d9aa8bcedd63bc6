"""Loads, prices and latencies as far apart as the API and floats admit: a plan or a reason, never a defect."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from effort import examples
from hetserve.base.units import QPS, MicroDollarsPerHour
from hetserve.planning import Problem, TypeOption, plan
from hetserve.planning.check import violations
from testing.planning import hetsev_types, line, min_cost, option, problem

PLANNERS = ("ilp", "greedy", "homogeneous")
SMALLEST = 5e-324
orders = st.floats(-300, 12).map(lambda exponent: 10.0**exponent) | st.sampled_from([SMALLEST, 1e-30, 1e9, 1e12])
micros = st.integers(0, 12).map(lambda exponent: 10**exponent)
milliseconds = st.floats(-2, 5).map(lambda exponent: 10.0**exponent)


@st.composite
def extreme_problems(draw: st.DrawFn) -> Problem:
    """MinCost problems of one to three types; a Deployment's replicas is all that limits some."""
    types = tuple(
        TypeOption(
            name,
            MicroDollarsPerHour(draw(micros) * draw(st.integers(1, 9))),
            line(draw(milliseconds)),
            max_instances=draw(st.none() | st.integers(0, 10_000)),
        )
        for name in ("alpha", "beta", "gamma")[: draw(st.integers(1, 3))]
    )
    return min_cost(types, draw(orders), slo_ms=1e6, budget=draw(st.none() | micros))


@pytest.mark.parametrize("planner", PLANNERS)
@pytest.mark.parametrize("load", [SMALLEST, 1e-300, 1e-30, 1e-16, 1e-9])
def test_a_load_next_to_nothing_gets_the_least_that_serves(planner: str, load: float) -> None:
    made = plan(min_cost(hetsev_types(), load), planner)
    assert (made.feasible, dict(made.counts)) == (True, {"v100": 0, "t4": 1}), made.message


@pytest.mark.parametrize("planner", PLANNERS)
@pytest.mark.parametrize("load", [1e6, 1e9, 1e12, 1e300])
def test_a_load_beyond_all_limits_gets_what_the_limits_carry(planner: str, load: float) -> None:
    made = plan(min_cost(hetsev_types(max_instances=8), load), planner)
    assert made.reason == "CapacityTooLow"
    if planner != "homogeneous":
        assert "(8xt4+8xv100) carries 600.0 q/s" in made.message.replace("8xv100+8xt4", "8xt4+8xv100")


@given(extreme_problems())
@settings(deadline=None, max_examples=examples(60))
@example(min_cost(hetsev_types(), 1e-30))
@example(min_cost([option("alpha", "0.000001", line(1)), option("beta", "0.001", line(1000))], 1e12, slo_ms=1e6))
def test_every_problem_gets_a_plan_or_a_reason(problem: Problem) -> None:
    for planner in PLANNERS:
        made = plan(problem, planner)
        assert made.reason != "PlannerFailed", f"{planner}: {made.message}"
        assert not made.feasible or violations(problem, made) == ()


def test_trials_of_a_load_next_to_nothing_have_times_that_are_finite() -> None:
    made = plan(min_cost([option("slow", "0.1", line(1000))], SMALLEST, slo_ms=1e6), "flow")
    assert (made.feasible, made.counts) == (True, (("slow", 1),)), made.message


@given(extreme_problems(), orders)
@settings(deadline=None, max_examples=examples(60))
def test_a_smaller_load_never_costs_more(problem: Problem, load: float) -> None:
    less = dataclasses.replace(problem, load=QPS(min(load, problem.load or load)))
    one, other = plan(less), plan(problem)
    if other.feasible:
        assert one.feasible, one.message
        assert one.cost <= other.cost


@pytest.mark.parametrize("planner", ["kairos", "kairos-plus"])
def test_a_budget_that_buys_more_than_can_be_ranked_is_refused_in_words(planner: str) -> None:
    types = (option("cheap", "0.000001", line(20)), option("dear", "1", line(10)))
    made = plan(problem(types, budget="999999"), planner)
    assert made.reason == "SpecInvalid"
    assert (
        "buys 2,147,483,647 instances of cheap, more than the 10,000,000 that are ranked: set its maxI" in made.message
    )
    assert plan(problem((option("cheap", "0.000001", line(20), max_instances=9),), budget="999999"), "kairos").feasible
