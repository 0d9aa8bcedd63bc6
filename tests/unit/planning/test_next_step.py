"""What a little more money buys: exact where a search proves it, said with care where it gave up."""

from __future__ import annotations

import dataclasses

import pytest

from hetserve.base.units import MicroDollarsPerHour
from hetserve.demand import BatchMix, kairos_mixture
from hetserve.planning import plan
from hetserve.planning.baselines.exhaustive import plan_exhaustive
from hetserve.planning.formatting import step_text
from hetserve.planning.kairos.ranking import BoundedConfiguration, RankingInputs, next_step, ranking_inputs
from hetserve.planning.kbest import best as kbest
from hetserve.planning.plan import Plan
from hetserve.planning.problem import Problem
from testing.planning import hetsev_types, kairos_types, line, min_cost, option, problem

RM2 = problem(kairos_types(), mix=kairos_mixture())


@pytest.fixture
def gives_up(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Every space is searched, and the search gives up after its first nodes."""
    monkeypatch.setattr(kbest, "LISTED", 0)
    monkeypatch.setattr(kbest, "NODE_LIMIT", 2)
    return monkeypatch


def best_of(given: Problem) -> tuple[RankingInputs, BoundedConfiguration]:
    made, setting = plan(given, "kairos"), ranking_inputs(given, "kairos")
    assert not isinstance(setting, Plan)
    top = made.ranking[0]
    columns = (setting.rates.base.name, *(aux.option.name for aux in setting.rates.auxiliaries))
    return setting, BoundedConfiguration(tuple(dict(top.counts)[name] for name in columns), top.cost, top.qps)


def test_a_step_that_is_proven_is_stated_as_it_is() -> None:
    step = plan(RM2, "kairos").next_step
    assert step is not None
    assert (step.extra, step.proven) == (112_000, True)
    assert step_text(step) == "next: +0.112 $/h buys +9.86 q/s of upper bound (1xg4dn.xlarge+14xr5n.large)"


def test_where_the_search_for_the_step_gives_up_it_is_the_most_it_costs_and_the_least_it_buys(
    request: pytest.FixtureRequest,
) -> None:
    setting, best = best_of(RM2)
    request.getfixturevalue("gives_up")
    step = next_step(setting, best).step
    assert step is not None
    assert not step.proven
    assert step_text(step).startswith(f"next: at most +{step.extra / 1e6:g} $/h buys at least +")
    request.getfixturevalue("gives_up").undo()
    richer = dataclasses.replace(RM2, budget=MicroDollarsPerHour(setting.budget + step.extra))
    assert plan(richer, "kairos").ranking[0].qps >= best.bound + step.gain - 1e-9, "less is bought than was promised"
    assert step.extra >= 112_000, "what is said to be the most is less than the exact step"


def test_a_search_that_finds_no_step_because_it_gave_up_does_not_say_that_there_is_none(
    request: pytest.FixtureRequest,
) -> None:
    types = (dataclasses.replace(kairos_types()[0], max_instances=1), *kairos_types()[1:])
    setting, best = best_of(dataclasses.replace(RM2, types=types))
    request.getfixturevalue("gives_up")
    found = next_step(setting, best)
    assert (found.step, found.known) == (None, False)
    assert "no more money" not in step_text(found.step, found.known)
    assert "not known" in step_text(found.step, found.known)


@pytest.mark.usefixtures("gives_up")
def test_no_gain_is_stated_over_a_best_bound_that_is_not_known() -> None:
    made = plan(RM2, "kairos")
    assert made.next_step is None
    assert "the search for the best bounds gave up early: there may be better ones" in made.verdict
    assert "what a little more money buys is not known" in made.verdict


@pytest.mark.parametrize("planner", ["robust", "kairos", "kairos-plus", "homogeneous", "exhaustive"])
def test_every_planner_of_throughput_states_a_next_step(planner: str) -> None:
    made = plan(problem(hetsev_types(), slo_ms=60, mix=BatchMix.single()), planner)
    assert made.next_step is not None
    assert step_text(made.next_step) in made.verdict
    assert dict(made.next_step.counts).keys() == {"v100", "t4"}


def test_the_next_step_of_one_type_alone_is_the_least_budget_for_a_percent_more() -> None:
    given = problem((option("a", "0.5", line(10)), option("b", "0.13", line(50))), slo_ms=100, budget="2.2")
    made = plan(given, "homogeneous")
    assert dict(made.counts) == {"a": 4, "b": 0}
    step = made.next_step
    assert step is not None
    assert (step.extra, dict(step.counts)) == (300_000, {"a": 5, "b": 0})
    richer = dataclasses.replace(given, budget=MicroDollarsPerHour(2_500_000))
    assert plan(richer, "homogeneous").bound_qps == pytest.approx(made.qps + step.gain if made.qps else 0)
    capped = dataclasses.replace(given, types=tuple(dataclasses.replace(o, max_instances=4) for o in given.types))
    assert plan(capped, "homogeneous").next_step is None


@pytest.mark.parametrize("planner", ["ilp", "greedy", "homogeneous", "exhaustive"])
def test_least_cost_planners_state_a_next_step_with_a_load_and_ilp_without(planner: str) -> None:
    made = plan(min_cost(hetsev_types(), 100), planner)
    assert made.next_step is not None
    assert step_text(made.next_step) in made.verdict
    carried = plan(dataclasses.replace(min_cost(hetsev_types(), 1, budget="1.2"), load=None), "ilp")
    assert carried.next_step is not None
    assert carried.next_step.extra > 0


def test_the_next_step_of_the_least_cost_is_the_same_by_program_and_by_trying_all() -> None:
    for load in (30, 100, 170, 240):
        given = min_cost(hetsev_types(max_instances=5), load)
        proven, tried, alone = (plan(given, name).next_step for name in ("ilp", "exhaustive", "homogeneous"))
        assert proven is not None
        assert tried is not None
        assert (tried.cost, tried.extra) == (proven.cost, proven.extra)
        if alone is not None:
            assert sum(1 for _, count in alone.counts if count) == 1
            assert alone.gain >= 0.01 * (plan(given, "homogeneous").capacity_qps or 0)


def test_no_next_step_is_looked_for_in_a_space_that_is_too_large() -> None:
    given = min_cost(hetsev_types(), 100)
    enough = next(limit for limit in range(1, 100) if plan_exhaustive(given, limit=limit).feasible)
    made = plan_exhaustive(given, limit=enough)
    assert (made.next_step, "more money" in made.verdict) == (None, False)
    assert plan_exhaustive(given).next_step is not None
