"""The generator of random pools: reproducible, valid, of the announced shape, with names that say nothing."""

from __future__ import annotations

import statistics

import pytest
from benchmarks.flow.pools import LARGE_BUDGETS, carrying, configurations, kairos_pools, large_pool, pools, small_pools

from hetserve.base.units import parse_money
from hetserve.planning import Problem, TypeOption
from hetserve.planning.slo import serves_whole_mix
from hetserve.planning.validate import problem_error, unattainable
from hetserve.profiles.spread import CONSTANT
from testing.data import reference_data

POOLS = pools(60)


def slowest(option: TypeOption, problem: Problem) -> float:
    return option.profile.mean(problem.mix.largest) or float("inf")


def test_a_pool_depends_on_its_number_and_the_seed_not_on_how_many_are_drawn() -> None:
    assert pools(7) == POOLS[:7]
    assert small_pools(2) == small_pools(5)[:2]
    assert not set(pools(7, seed=1)) & set(POOLS)


@pytest.mark.parametrize("problem", [*POOLS, *small_pools(8), large_pool(40, 0)], ids=lambda problem: problem.service)
def test_every_pool_is_valid_and_its_fast_type_serves_every_batch(problem: Problem) -> None:
    assert problem_error(problem) is None
    assert unattainable(problem) is None
    fast = min(problem.types, key=lambda option: slowest(option, problem))
    assert serves_whole_mix(fast, problem)
    assert fast.price <= (problem.budget or 0)


def test_pools_have_the_shape_of_the_experiment() -> None:
    assert {len(problem.types) for problem in POOLS} == {3, 4, 5, 6}
    assert {problem.slo.percentile for problem in POOLS} == {95.0, 99.0, 99.9}
    assert all(parse_money("2.5") <= (problem.budget or 0) <= parse_money("15") for problem in POOLS)
    assert all(problem.mix.largest <= 4000 for problem in POOLS)
    sizes = [len(problem.mix.batches) for problem in POOLS]
    assert min(sizes) < 40
    assert max(sizes) > 200
    constant = sum(all(o.profile.spread(1) == CONSTANT for o in problem.types) for problem in POOLS)
    assert 0 < constant < 15


def test_the_place_of_a_name_says_nothing_about_speed() -> None:
    places = []
    for problem in pools(200):
        fast = min(problem.types, key=lambda option, problem=problem: slowest(option, problem))  # type: ignore[misc]
        names = [option.name for option in problem.types]
        places.append((sorted(names).index(fast.name) / (len(names) - 1), names.index(fast.name) / (len(names) - 1)))
    for place in zip(*places, strict=True):
        assert 0.4 < statistics.fmean(place) < 0.6
        assert {0.0, 1.0} <= set(place)


def test_small_pools_can_be_searched_exhaustively_and_large_ones_have_the_asked_types() -> None:
    assert all(20 <= configurations(problem) <= 400 for problem in small_pools(10))
    assert [len(large_pool(types, 3).types) for types in LARGE_BUDGETS] == list(LARGE_BUDGETS)


def test_the_same_pool_with_a_load_is_a_problem_of_least_cost() -> None:
    problem = carrying(POOLS[0], 123.4567891)
    assert (problem.objective, problem.load, problem.budget) == ("MinCost", 123.457, None)
    assert problem.types == POOLS[0].types


def test_kairos_pools_are_its_models_at_three_budgets() -> None:
    reference_data("kairos/latency.csv")
    found = kairos_pools()
    assert len(found) == 15
    assert len({problem.service for problem in found}) == 15
    assert all(problem.base is None for problem in found)
