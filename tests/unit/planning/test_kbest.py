from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from effort import spread
from hetserve.base.units import MilliCPU
from hetserve.demand import kairos_mixture
from hetserve.planning import Pool, Problem, ResourceAmounts, TypeOption, configurations
from hetserve.planning.configurations import count_configurations
from hetserve.planning.kairos.ranking import choose_base
from hetserve.planning.kbest import best
from hetserve.planning.kbest.best import Space, best_configurations, grid_of, list_all, space_of
from hetserve.planning.rates import derive_rates
from testing.kbest_pools import FAMILIES, full_pool, small_pool, space
from testing.planning import kairos_types, problem


@pytest.fixture
def by_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """No space is looked at whole."""
    monkeypatch.setattr(best, "LISTED", 0)


def space_of_problem(asked: Problem) -> Space:
    assert asked.budget is not None
    base = choose_base(asked, asked.budget, "kairos")
    assert isinstance(base, TypeOption)
    others = tuple(option for option in asked.types if option != base)
    return space_of(derive_rates(base, others, asked.mix, asked.slo.latency), asked.budget, asked.pools)


@pytest.mark.parametrize("budget", ["0.6", "1", "2.5", "5", "7.77"])
@pytest.mark.usefixtures("by_program")
def test_the_program_finds_the_ten_best_of_kairos_pool_and_does_not_call_them_all(budget: str) -> None:
    pool = space_of_problem(problem(kairos_types(), mix=kairos_mixture(), budget=budget))
    listed, found = list_all(pool, 10), best_configurations(pool)
    assert found.counts.tolist() == listed.counts.tolist()
    assert found.costs.tolist() == listed.costs.tolist()
    assert (listed.complete, found.complete) == (True, False)


@pytest.mark.usefixtures("by_program")
def test_shared_resources_limit_the_search_too() -> None:
    demand = ResourceAmounts(MilliCPU(2000))
    types = [dataclasses.replace(o, demand=demand, pool="nodes", running=1) for o in kairos_types()]
    pools = (Pool("nodes", ResourceAmounts(MilliCPU(13_000))),)
    pool = space_of_problem(problem(types, mix=kairos_mixture(), pools=pools))
    assert len(pool.free) == 1
    listed, found = list_all(pool, 10), best_configurations(pool)
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


@pytest.mark.parametrize("family", spread(tuple(FAMILIES), 3))
@pytest.mark.parametrize("capped", [False, True], ids=["free", "capped"])
@pytest.mark.usefixtures("by_program")
def test_what_the_program_finds_is_within_a_thousandth_of_the_best(family: str, capped: bool) -> None:
    pool = full_pool(1, family, capped=capped, types=5, budget=8_000_000, cent=1000)
    listed, found = list_all(pool, 10), best_configurations(pool)
    assert found.keys[0] >= 0.999 * listed.keys[0]
    assert (found.keys >= 0.98 * listed.keys).all()
    assert (found.counts @ pool.prices == found.costs).all()
    reached = 0.7 * float(listed.keys[0])
    cheap, cheapest = best_configurations(pool, 1, reached), list_all(pool, 1, reached)
    assert cheap.keys[0] >= reached
    assert cheap.costs[0] <= 1.001 * cheapest.costs[0]


def test_twenty_types_at_a_hundred_dollars_are_ranked_in_order_within_the_budget() -> None:
    pool = full_pool(3, "plain", capped=False)
    found = best_configurations(pool)
    assert (found.complete, found.size > 1e20, len(found.counts)) == (False, True, 10)
    assert (np.diff(found.keys) <= 0).all()
    assert found.costs.max() <= pool.budget
    # No spare money: a unit of the cheapest type would fit else.
    assert pool.budget - found.costs[0] < pool.prices.min()


def test_an_order_does_not_depend_on_how_a_space_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    pools = [pool for pool in map(small_pool, range(60)) if count_configurations(pool.dimensions, pool.budget) < 3000]
    whole = [(list_all(pool, 10), list_all(pool)) for pool in pools]
    monkeypatch.setattr(configurations, "_ROWS", 7)
    for pool, (ten, everything) in zip(pools, whole, strict=True):
        assert list_all(pool, 10).counts.tolist() == ten.counts.tolist() == everything.counts[:10].tolist()
        assert list_all(pool).counts.tolist() == everything.counts.tolist()


def test_the_cheapest_configuration_that_reaches_a_bound_is_found_exactly() -> None:
    checked = 0
    for seed in range(150):
        pool = small_pool(seed)
        everything = list_all(pool)
        if not 0 < len(everything.keys) < 20_000:
            continue
        grid = grid_of(pool)
        target = everything.keys[len(everything.keys) // 3]
        enough = everything.keys >= target
        cheapest = everything.costs[enough].min()
        found = best_configurations(pool, 1, grid.key_for(float(target) * 2**14 * grid.scale))
        assert (found.complete, found.costs[0]) == (True, cheapest)
        assert found.keys[0] == everything.keys[enough & (everything.costs == cheapest)].max()
        checked += 1
    assert checked > 80


def test_an_empty_space_has_no_entries() -> None:
    pool = space(100, [200], [0], 1.0, limits=[], f=[], t=[], q_aux=[])
    assert len(best_configurations(pool).counts) == 0


def test_fewer_configurations_than_asked_are_all_found() -> None:
    pool = space(1000, [300], [3], 1.0, limits=[], f=[], t=[], q_aux=[])
    assert best_configurations(pool, 10).counts.tolist() == [[3], [2], [1]]
