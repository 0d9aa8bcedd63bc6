"""Pools that break rankings: each failure message says what harm would be done."""

from __future__ import annotations

import numpy as np
import pytest

from hetserve.planning.kbest.best import Order, Space, best_configurations, grid_of, list_all
from hetserve.planning.kbest.search import found_by_program
from testing.kbest_pools import space


def same(pool: Space, top: int = 10) -> None:
    listed, found = list_all(pool, top), found_by_program(pool, grid_of(pool), Order(top))
    assert found.counts[0].tolist() == listed.counts[0].tolist(), "what is bought depends on the size of the space"
    assert found.costs[0] == listed.costs[0]


def test_equal_types_by_the_dozen_end_at_once_within_the_budget() -> None:
    pool = space(
        10_000_000,
        [1_000_000] + [100_000] * 19,
        [10] + [100] * 19,
        10.0,
        limits=[500] * 19,
        f=[0.5] * 19,
        t=[0.4] * 19,
        q_aux=[[1.0] * 19] * 19,
    )
    found = best_configurations(pool)
    assert len(found.counts) == 10
    assert found.costs.max() <= pool.budget


def test_a_pool_made_hard_is_answered_and_not_called_complete() -> None:
    # Rates in proportion to odd prices: a subset-sum problem, on which no bound bites.
    prices = [1_000_003] + [100_003 + 7 * i for i in range(20)]
    most = [60_000_000 // price for price in prices]
    rates = [[float(price) for price in prices[1:]]] * 20
    pool = space(60_000_000, prices, most, 1_000_003.0, limits=[500] * 20, f=[0.5] * 20, t=[0.5] * 20, q_aux=rates)
    found = best_configurations(pool)
    assert len(found.counts) == 10
    assert not found.complete, "a search that did not look at all calls its entries the best"
    costs = found.counts @ pool.prices
    assert (costs <= pool.budget).all(), "a plan over the budget is called one within it"


@pytest.mark.parametrize("t", [0.0, 1e-300, 1e-9, 1 - 2**-53, 1.0])
@pytest.mark.parametrize("f", [0.0, 1e-300, 0.5, 1 - 2**-53, 1.0])
def test_shares_at_their_edges_divide_by_nothing(f: float, t: float) -> None:
    pool = space(900, [300, 100], [3, 9], 7.0, limits=[5], f=[f], t=[t], q_aux=[[3.0]])
    with np.errstate(all="raise", under="ignore"):
        same(pool)


@pytest.mark.parametrize("budget", range(100_000, 700_000, 50_000))
def test_a_configuration_that_costs_exactly_the_budget_is_found(budget: int) -> None:
    pool = space(budget, [100_000, 50_000], [9, 20], 5.0, limits=[5], f=[0.8], t=[0.6], q_aux=[[2.0]])
    same(pool)
    costs = list_all(pool, 1000).costs
    assert budget in costs.tolist(), "a micro-dollar of rounding loses the plan that the budget just buys"


def test_more_of_a_slower_type_may_lower_the_bound_so_that_the_best_is_not_maximal() -> None:
    # The second auxiliary serves larger queries: with it present, the first is charged for those too.
    pool = space(
        1300,
        [300, 100, 100],
        [4, 13, 13],
        5.0,
        limits=[200, 800],
        f=[0.6, 0.98],
        t=[0.4, 0.95],
        q_aux=[[8.0, 3.0], [0.5, 0.4]],
    )
    same(pool)
    assert list_all(pool, 10).counts[0, 2] == 0, "money is spent on an instance that lowers the bound"


def test_rates_of_very_different_size_keep_their_order() -> None:
    pool = space(
        1000, [100, 1, 50], [10, 1000, 20], 1e9, limits=[5, 7], f=[0.1, 0.9], t=[1e-6, 0.8], q_aux=[[1e-6, 1e9]] * 2
    )
    same(pool)


def test_a_budget_of_a_million_dollars_does_not_overflow() -> None:
    pool = space(
        10**12,
        [526_000, 149_000],
        [10**12 // 526_000, 10**12 // 149_000],
        15.0,
        limits=[5],
        f=[0.98],
        t=[0.9],
        q_aux=[[9.8]],
    )
    found = best_configurations(pool)
    costs = found.counts @ pool.prices
    assert (costs == found.costs).all(), "a sum of money wrapped around"
    assert (costs <= pool.budget).all()
    assert grid_of(pool).scale > 0
