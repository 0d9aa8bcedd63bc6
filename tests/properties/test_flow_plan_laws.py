"""Laws of planner flow's whole plan: checked, within brute force's bounds, free of names and order, held elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields, is_dataclass, replace
from functools import lru_cache
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples, spread
from hetserve.base.units import QPS
from hetserve.dispatch import make_policy
from hetserve.planning import Counts, LatencySlo, Plan, Problem, plan
from hetserve.planning.check import violations
from hetserve.planning.flow.programs.program import CEILING
from hetserve.planning.flow.search.judge import REMEMBERED
from hetserve.serving.system import System
from hetserve.simulation.allowable import RateTrial, TrialSetup
from hetserve.simulation.criteria import Pooled
from hetserve.simulation.workload import draw_workload
from testing import flow_brute_force as brute_force
from testing.flow_pools import flow_pool, for_load
from testing.planning_strategies import flow_cost_problems, flow_problems

SEEDS = range(10)
FEW = (0, 3)
OTHER_SEEDS = (770_001, 770_002, 770_003)
"""Of no planner's trial."""
NEVER = 1 + 1e-6

quick_ones = settings(max_examples=examples(30))
tried_ones = settings(max_examples=examples(6))


@lru_cache
def planned(seed: int) -> Plan:
    """The most throughput of a seeded pool."""
    made = plan(flow_pool(seed), "flow")
    assert made.feasible, made.message
    return made


@lru_cache
def loaded(seed: int) -> Problem:
    """A seeded pool with 60 % of the rate that its budget holds."""
    return for_load(flow_pool(seed), 0.6 * (planned(seed).held_qps or 0.0))


@lru_cache
def carried(seed: int) -> Plan:
    made = plan(loaded(seed), "flow")
    assert made.feasible, made.message
    return made


def both(seed: int) -> tuple[tuple[Problem, Plan], ...]:
    return (flow_pool(seed), planned(seed)), (loaded(seed), carried(seed))


def brute_finds_one(problem: Problem) -> bool:
    """Whether some counts carry the load, or any load, if queries were a fluid."""
    budget = None if problem.budget is None else int(problem.budget)
    if problem.load is not None:
        return brute_force.lowest_objective(problem, CEILING, problem.load, budget) is not None
    return brute_force.highest_rate(problem, CEILING, budget or 0) > 0


def promises_are_sound(problem: Problem, made: Plan) -> None:
    """Nothing above brute force's best, nothing that the checker refuses."""
    assert made.reason != "PlannerFailed", made.message
    assert made.message
    assert made.verdict
    if not made.feasible:
        return
    values = tuple(count for _, count in made.counts)
    budget = None if problem.budget is None else int(problem.budget)
    assert violations(problem, made) == ()
    assert brute_force.allowed(problem, values, budget)
    fluid = brute_force.rates(problem, CEILING, [values])[0]
    if problem.load is not None:
        best = brute_force.lowest_objective(problem, CEILING, problem.load, budget)
        assert best is not None
        assert brute_force.objective(problem, values) >= best
        assert problem.load <= fluid * NEVER
    else:
        assert made.ceiling_qps is not None
        assert brute_force.highest_rate(problem, CEILING, budget or 0) <= made.ceiling_qps * NEVER
        assert sum(flow.qps for flow in made.flow) <= fluid * NEVER
        assert made.held_qps is None or made.held_qps <= fluid * NEVER


@quick_ones
@given(st.one_of(flow_problems(counted=True), flow_cost_problems()))
def test_a_quick_plan_is_sound_and_there_if_any_mix_can_serve(problem: Problem) -> None:
    made = plan(problem, "flow", quick=True)
    promises_are_sound(problem, made)
    assert made.feasible == (brute_finds_one(problem) and not too_often_late(problem)), made.message
    if made.feasible:
        assert made.tried is False
        assert made.held_qps is None
        assert "not tried" in made.verdict


def too_often_late(problem: Problem) -> bool:
    """Whether more queries than the SLO allows are late even if each goes where it is late least often."""
    late = [
        min(brute_force.service(option, batch, problem.slo.latency)[1] for option in problem.types)
        for batch in problem.mix.batches
    ]
    allowed = 1 - problem.slo.percentile / 100
    return sum(a * b for a, b in zip(late, problem.mix.shares, strict=True)) > allowed * NEVER


@tried_ones
@given(st.one_of(flow_problems(counted=True), flow_cost_problems()), st.sampled_from((60.0, 90.0, 99.0)))
def test_a_tried_plan_is_sound_and_a_quick_one_is_there_too(problem: Problem, percentile: float) -> None:
    problem = replace(problem, slo=LatencySlo(problem.slo.latency, percentile))
    made = plan(problem, "flow")
    promises_are_sound(problem, made)
    if made.feasible:
        assert made.tried
        assert "in simulation" in made.verdict
        assert made.held_qps is not None
        assert problem.load is None or made.held_qps >= problem.load
        assert plan(problem, "flow", quick=True).feasible


@quick_ones
@given(st.one_of(flow_problems(counted=True), flow_cost_problems()), st.randoms(use_true_random=False))
def test_a_quick_plan_is_worth_the_same_in_any_order_and_under_other_names(problem: Problem, random: Random) -> None:
    """Which of two equal types it holds may differ."""
    names = random.sample("abcdefgh", len(problem.types))
    types = [replace(option, name=name) for option, name in zip(problem.types, names, strict=True)]
    random.shuffle(types)
    one, other = plan(problem, "flow", quick=True), plan(replace(problem, types=tuple(types)), "flow", quick=True)
    assert (one.reason, one.cost, one.ceiling_qps) == (other.reason, other.cost, other.ceiling_qps)
    assert sum(flow.qps for flow in one.flow) == pytest.approx(sum(flow.qps for flow in other.flow))


def in_order_of(value: Any, problem: Problem) -> Any:
    """The same plan, or part of one, with all that stands by type in the problem's order."""
    places = {option.name: i for i, option in enumerate(problem.types)}
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{one.name: in_order_of(getattr(value, one.name), problem) for one in fields(value)})
    if not isinstance(value, tuple):
        return value
    if all(isinstance(one, tuple) and one[0] in places for one in value):
        return tuple(sorted(value, key=lambda one: places[one[0]]))
    return tuple(in_order_of(one, problem) for one in value)


@pytest.mark.parametrize("seed", spread(FEW, 1))
def test_the_order_of_the_types_changes_nothing(seed: int) -> None:
    for problem, made in both(seed):
        types = list(problem.types)
        Random(seed).shuffle(types)  # noqa: S311
        shuffled = replace(problem, types=(*types[1:], types[0]))
        other = plan(shuffled, "flow")
        # The message lists the types in the order of the problem.
        assert replace(other, message=made.message) == in_order_of(made, shuffled)


def named(counts: Counts, names: Mapping[str, str]) -> Counts:
    return tuple((names[name], count) for name, count in counts)


@pytest.mark.parametrize("seed", spread(FEW, 1))
def test_renamed_types_give_the_renamed_plan(seed: int) -> None:
    for problem, made in both(seed):
        sorted_names = sorted(option.name for option in problem.types)
        names = dict(zip(sorted_names, reversed(sorted_names), strict=True))
        types = tuple(replace(option, name=names[option.name]) for option in problem.types)
        other = plan(replace(problem, types=types), "flow")
        assert other.counts == named(made.counts, names)
        assert [entry.counts for entry in other.ranking] == [named(entry.counts, names) for entry in made.ranking]
        assert other.flow == tuple(replace(flow, type=names[flow.type]) for flow in made.flow)
        assert (other.held_qps, other.ceiling_qps, other.cost) == (made.held_qps, made.ceiling_qps, made.cost)


def test_renamed_twins_are_held_in_the_same_numbers() -> None:
    """Which of two equal types is which, nobody can know."""
    pool = flow_pool(3)
    problem = replace(pool, types=(*pool.types, replace(pool.types[1], name="a-twin")))
    renamed = replace(problem, types=(*pool.types, replace(pool.types[1], name="z-twin")))
    one, other = plan(problem, "flow"), plan(renamed, "flow")
    assert sorted(count for _, count in one.counts) == sorted(count for _, count in other.counts)
    assert (one.cost, one.held_qps, one.ceiling_qps) == (other.cost, other.held_qps, other.ceiling_qps)


def test_plans_made_side_by_side_are_those_made_one_after_the_other() -> None:
    asked = both(FEW[0])
    REMEMBERED.forget()
    with ThreadPoolExecutor(4) as threads:
        made = list(threads.map(lambda pair: plan(pair[0], "flow"), asked))
    assert made == [alone for _, alone in asked]


@pytest.mark.parametrize("seed", spread(FEW, 1))
def test_more_money_holds_more_or_as_much(seed: int) -> None:
    """As far as trials tell: one may pass by luck where the other does not."""
    problem, made = flow_pool(seed), planned(seed)
    assert problem.budget is not None
    richer = plan(replace(problem, budget=type(problem.budget)(problem.budget + 600_000)), "flow")
    assert richer.held_qps is not None
    assert made.held_qps is not None
    assert richer.held_qps >= made.held_qps * 0.97


@lru_cache
def elsewhere(seed: int, *, cost: bool) -> RateTrial:
    """A plan's claim in three runs of 30,000 queries that no planner drew."""
    problem, made = both(seed)[cost]
    system = System.of({option.name: option.profile for option in problem.types}, problem.mix.batches, slo_of(problem))
    works = [draw_workload(problem.mix, 30_000, other) for other in OTHER_SEEDS]
    trial = TrialSetup(system, dict(made.counts), make_policy(problem.policy), problem.slo.percentile, Pooled())
    return trial.at(problem.load if cost and problem.load else made.held_qps or QPS(0.0), works)


def slo_of(problem: Problem) -> float:
    return float(problem.slo.latency)


@pytest.mark.deep
@pytest.mark.parametrize("pools", [2, pytest.param(len(SEEDS), marks=pytest.mark.deep)])
@pytest.mark.parametrize("cost", [False, True], ids=["most throughput", "least cost"])
def test_what_a_plan_claims_holds_with_other_seeds(cost: bool, pools: int) -> None:
    """Nowhere later than one and a half times the share allowed, nearly everywhere within it."""
    ran = [elsewhere(seed, cost=cost) for seed in SEEDS[:pools]]
    assert not any(trial.unstable for trial in ran)
    assert max(trial.limit for trial in ran) <= 0.015
    assert sum(trial.limit > 0.01 for trial in ran) <= 1


@pytest.mark.parametrize("seed", spread(SEEDS, 1))
def test_seeded_plans_are_within_budget_and_pass_the_checker(seed: int) -> None:
    for problem, made in both(seed):
        assert violations(problem, made) == ()
        assert problem.budget is None or made.cost <= problem.budget
        assert made.tried
        assert made.held_qps is not None
        assert made.held_qps <= brute_force.rates(problem, CEILING, [tuple(n for _, n in made.counts)])[0] * NEVER
