"""Laws of bounds on all instances together: as of trying all counts, monotone, whatever the types are called."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from effort import examples
from hetserve.base.units import QPS
from hetserve.planning import Plan, Problem, plan
from hetserve.planning.baselines.exhaustive import plan_exhaustive
from hetserve.planning.check import violations
from hetserve.planning.flow.programs.classes import class_table
from hetserve.planning.flow.programs.program import Margin, Mix, least_cost, most_load
from hetserve.planning.flow.search.leading import allowed, leading, neighbours, splits
from hetserve.planning.highs import GAP
from hetserve.planning.inputs import without_slack_caps
from hetserve.planning.validate import problem_error, unattainable
from testing import flow_brute_force as brute_force
from testing.planning_strategies import (
    cost_problems,
    flow_cost_problems,
    flow_problems,
    margins,
    pooled,
    totalled,
)

WORSE = 1 + GAP + 1e-6
NEVER = 1 + 1e-6

some = settings(max_examples=examples(60), deadline=None)
few = settings(max_examples=examples(25), deadline=None)
TOTALS = ("flow", "ilp", "greedy")


def budget_of(problem: Problem) -> int | None:
    return None if problem.budget is None else int(problem.budget)


def least(problem: Problem, margin: Margin) -> Mix | None:
    return least_cost(class_table(problem), margin, problem.load or 0.0, budget=budget_of(problem))


def values_of(problem: Problem, mix: Mix) -> tuple[int, ...]:
    return tuple(count for _, count in class_table(problem).counts(mix.counts))


def objective_of(problem: Problem, mix: Mix) -> int:
    return brute_force.objective(problem, values_of(problem, mix))


def quick(problem: Problem, planner: str) -> Plan:
    return plan(problem, planner, quick=True)


@some
@given(totalled(flow_cost_problems()), margins())
def test_the_least_cost_within_totals_is_that_of_all_counts(problem: Problem, margin: Margin) -> None:
    best = brute_force.lowest_objective(problem, margin, problem.load or 0.0, budget_of(problem))
    found = least(problem, margin)
    assert (found is None) == (best is None)
    if found is not None and best is not None:
        assert best <= objective_of(problem, found) <= best * WORSE
        assert found.objective_bound <= best * NEVER
        assert brute_force.allowed(problem, values_of(problem, found), budget_of(problem))


@some
@given(totalled(flow_problems()), margins())
def test_the_most_load_within_totals_is_that_of_all_counts(problem: Problem, margin: Margin) -> None:
    best = brute_force.highest_rate(problem, margin, problem.budget or 0)
    found = most_load(class_table(problem), margin, budget=budget_of(problem))
    assert (found is None) == (best <= 0)
    if found is not None:
        assert best / WORSE <= found.rate <= best * NEVER
        assert best <= found.objective_bound * NEVER
        assert brute_force.allowed(problem, values_of(problem, found), budget_of(problem))


@some
@given(totalled(cost_problems() | pooled(cost_problems())))
def test_the_integer_program_within_totals_costs_what_the_best_of_all_choices_does(problem: Problem) -> None:
    assume(unattainable(problem) is None)
    every, ours, near = plan_exhaustive(problem), plan(problem, "ilp"), plan(problem, "greedy")
    assert ours.feasible == every.feasible, (ours.message, every.message)
    assert ours.counts == every.counts
    assert ours.reason == every.reason
    if near.feasible:
        assert near.cost >= every.cost or problem.launch_weight
        assert violations(problem, near) == ()


@some
@given(totalled(flow_cost_problems()), margins(), st.integers(1, 3))
def test_a_tighter_total_is_never_cheaper(problem: Problem, margin: Margin, by: int) -> None:
    found = least(problem, margin)
    for tighter in (
        replace(problem, least_total=problem.least_total + by),
        replace(problem, most_total=max((problem.most_total or 8) - by, 1)),
    ):
        other = least(tighter, margin)
        if other is not None:
            assert found is not None
            assert objective_of(problem, found) <= objective_of(problem, other) * WORSE


@some
@given(totalled(flow_cost_problems()), margins(), st.floats(1.01, 3.0))
def test_more_load_within_totals_is_never_cheaper(problem: Problem, margin: Margin, factor: float) -> None:
    found, more = least(problem, margin), least(replace(problem, load=QPS((problem.load or 0) * factor)), margin)
    if more is not None:
        assert found is not None
        assert objective_of(problem, found) <= objective_of(problem, more) * WORSE


@some
@given(totalled(flow_cost_problems()), margins(), st.randoms(use_true_random=False))
def test_names_and_order_of_the_types_do_not_matter_within_totals(
    problem: Problem, margin: Margin, source: Random
) -> None:
    types = list(problem.types)
    source.shuffle(types)
    other = replace(problem, types=tuple(replace(one, name=f"other-{one.name[::-1]}") for one in types))
    found, renamed = least(problem, margin), least(other, margin)
    assert (found is None) == (renamed is None)
    if found is not None and renamed is not None:
        assert objective_of(other, renamed) == pytest.approx(objective_of(problem, found), rel=GAP)


@some
@given(totalled(flow_problems()))
def test_what_is_tried_keeps_the_totals(problem: Problem) -> None:
    assume(problem_error(problem) is None and unattainable(problem) is None)
    table, budget = class_table(problem), int(problem.budget or 0)
    found = {*leading(table, budget), *splits(table, budget)}
    for values in tuple(found)[:6]:
        found.update(neighbours(table, values, budget))
    assert all(allowed(table, values, budget) for values in found)
    assert all(problem.allows_total(sum(values)) for values in found)


@pytest.mark.parametrize("planner", TOTALS)
@few
@given(problem=totalled(flow_cost_problems()), idle=st.booleans())
def test_a_quick_plan_keeps_the_totals_or_says_why_not(planner: str, problem: Problem, idle: bool) -> None:
    problem = replace(problem, load=QPS(0.0)) if idle else problem
    assume(problem_error(problem) is None)
    made = quick(problem, planner)
    assert made.reason not in {"PlannerFailed", "SpecInvalid"}, made.message
    if made.feasible:
        assert problem.allows_total(sum(n for _, n in made.counts))
        assert violations(problem, made) == ()


@pytest.mark.parametrize("planner", ["ilp", "greedy"])
@few
@given(problem=totalled(cost_problems()), more=st.integers(0, 3))
def test_a_cap_above_the_total_changes_nothing(planner: str, problem: Problem, more: int) -> None:
    assume(problem.most_total is not None)
    problem = replace(problem, planner=planner)
    limit = (problem.most_total or 0) + more
    capped = replace(problem, types=tuple(replace(o, max_instances=min(o.most, limit)) for o in problem.types))
    relaxed = without_slack_caps(capped, problem)
    first, second = plan(capped), plan(relaxed)
    assert (first.counts, first.reason) == (second.counts, second.reason)


@few
@given(totalled(flow_cost_problems()))
def test_no_load_costs_no_more_than_some(problem: Problem) -> None:
    idle = replace(problem, load=QPS(0.0), launch_weight=0.0)
    assume(problem_error(idle) is None and unattainable(idle) is None)
    some_load, none = plan(replace(problem, launch_weight=0.0), "flow", quick=True), plan(idle, "flow", quick=True)
    if some_load.feasible:
        assert none.feasible, none.message
        assert (none.floor_cost or 0) <= some_load.cost
        assert any(count for _, count in none.counts)
