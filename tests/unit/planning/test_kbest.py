from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from numba.core.registry import CPUDispatcher

from hetserve.base.units import MilliCPU
from hetserve.demand import kairos_mixture
from hetserve.planning import Pool, Problem, ResourceAmounts
from hetserve.planning.kairos.base import NoBase, choose_base
from hetserve.planning.kbest import (
    Space,
    cheapest_reaching,
    explore,
    grid_of,
    list_all,
    parts,
    search,
    search_best,
    space_of,
    ties,
)
from hetserve.planning.rates import derive_rates
from testing.kbest_dp import best_by_dp
from testing.kbest_pools import full_pool, small_pool, space
from testing.planning import kairos_types, problem

ZERO = np.zeros(0)


def space_of_problem(asked: Problem) -> Space:
    assert asked.budget is not None
    base = choose_base(asked, asked.budget)
    assert not isinstance(base, NoBase)
    others = tuple(option for option in asked.types if option != base)
    return space_of(derive_rates(base, others, asked.mix, asked.slo.latency), asked.budget, asked.pools)


@pytest.mark.parametrize("budget", ["0.6", "1", "2.5", "5", "7.77"])
def test_the_search_equals_the_listing_of_kairos_pool(budget: str) -> None:
    pool = space_of_problem(problem(kairos_types(), mix=kairos_mixture(), budget=budget))
    listed, found = list_all(pool, 10), search_best(pool)
    assert found.counts.tolist() == listed.counts.tolist()
    assert found.costs.tolist() == listed.costs.tolist()
    assert found.proven
    assert not found.tied


def test_shared_resources_limit_the_search_too() -> None:
    demand = ResourceAmounts(MilliCPU(2000))
    types = [dataclasses.replace(o, demand=demand, pool="nodes", running=1) for o in kairos_types()]
    pools = (Pool("nodes", ResourceAmounts(MilliCPU(13_000))),)
    pool = space_of_problem(problem(types, mix=kairos_mixture(), pools=pools))
    assert len(pool.free) == 1
    listed, found = list_all(pool, 10), search_best(pool)
    assert found.counts.tolist() == listed.counts.tolist()
    assert int(found.counts[0].sum()) <= 4 + 6


def test_a_resource_of_one_type_alone_is_a_limit_of_that_type() -> None:
    types = list(kairos_types())
    types[2] = dataclasses.replace(types[2], demand=ResourceAmounts(MilliCPU(2000)), pool="nodes", running=1)
    pool = space_of_problem(
        problem(types, mix=kairos_mixture(), pools=(Pool("nodes", ResourceAmounts(MilliCPU(5000))),))
    )
    assert len(pool.free) == 0
    assert pool.most.tolist()[1:] == [5, 3, 15]


@pytest.mark.parametrize("family", ["plain", "tied", "proportional"])
@pytest.mark.parametrize("capped", [False, True], ids=["free", "capped"])
def test_twenty_types_equal_dynamic_programming(family: str, capped: bool) -> None:
    pool = full_pool(5, family, capped=capped, types=12, budget=12_000_000, cent=10_000)
    keys, costs = best_by_dp(pool, grid_of(pool))
    found = search_best(pool)
    assert found.proven
    assert found.keys.tolist() == keys.tolist()
    assert found.costs.tolist() == costs.tolist()


def test_twenty_types_at_a_hundred_dollars_are_searched_in_few_nodes() -> None:
    for seed in range(5):
        found = search_best(full_pool(seed, "plain", capped=False))
        assert found.proven
        assert found.nodes < 500_000
        assert len(found.counts) == 10


def test_ties_that_cannot_be_settled_are_flagged_not_promised() -> None:
    found = [search_best(full_pool(seed, "tied", capped=False)) for seed in range(12)]
    assert all(ranking.proven for ranking in found)
    assert any(ranking.tied for ranking in found)
    assert any(not ranking.tied and ranking.keys[0] == ranking.keys[-1] for ranking in found)


def test_the_cheapest_configuration_that_reaches_a_bound_is_found_exactly() -> None:
    checked = 0
    for seed in range(150):
        pool = small_pool(seed)
        everything = list_all(pool)
        if not 0 < len(everything.keys) < 20_000:
            continue
        grid = grid_of(pool)
        target = everything.keys[len(everything.keys) // 3]
        expected = everything.costs[everything.keys >= target].min()
        found = cheapest_reaching(pool, grid, float(target) * 2**14 * grid.scale)
        searched = search_best(pool, 1, float(target))
        assert found.proven
        assert found.counts is not None
        assert found.cost == expected == searched.costs[0]
        checked += 1
    assert checked > 80


def test_an_empty_space_has_no_entries() -> None:
    pool = space(100, [200], [0], 1.0, limits=[], f=[], t=[], q_aux=[])
    assert len(search_best(pool).counts) == 0
    assert len(list_all(pool).counts) == 0


def test_fewer_configurations_than_asked_are_all_found() -> None:
    pool = space(1000, [300], [3], 1.0, limits=[], f=[], t=[], q_aux=[])
    assert search_best(pool, 10).counts.tolist() == [[3], [2], [1]]


def test_no_kernel_of_the_search_is_compiled_twice() -> None:
    """A number written where a kernel is called, or an array of another layout, has all below compiled once more."""
    for seed in range(40):
        pool = small_pool(seed)  # with and without shared resources
        search_best(pool)
        search_best(dataclasses.replace(pool, demand=np.asfortranarray(pool.demand)))
    kernels = {
        value
        for module in (explore, parts, search, ties)
        for value in vars(module).values()
        if isinstance(value, CPUDispatcher)
    }
    assert len(kernels) > 20
    assert {kernel.py_func.__name__: len(kernel.signatures) for kernel in kernels if len(kernel.signatures) > 1} == {}
