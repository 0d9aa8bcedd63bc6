"""Pools that break rankings: each failure message says what harm would be done."""

from __future__ import annotations

import numpy as np
import pytest

from hetserve.planning.kbest import grid_of, list_all, search_best
from testing.kbest_pools import space


def same(pool: object, top: int = 10) -> None:
    listed, found = list_all(pool, top), search_best(pool, top)  # type: ignore[arg-type]
    assert found.counts.tolist() == listed.counts.tolist(), "which plan is bought depends on the size of the space"
    assert found.costs.tolist() == listed.costs.tolist()


def test_equal_types_by_the_dozen_end_at_once_and_in_order() -> None:
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
    found = search_best(pool)
    assert found.proven, "exponentially many equals are looked at one by one"
    assert found.nodes < 1_000_000
    assert found.counts[0, 1:-1].sum() == 0, "of all equals the first by counts has them in the last column"


def test_a_pool_made_hard_gives_up_in_time_and_says_so() -> None:
    # Rates in proportion to odd prices: a subset-sum problem, on which no bound bites.
    prices = [1_000_003] + [100_003 + 7 * i for i in range(20)]
    most = [60_000_000 // price for price in prices]
    rates = [[float(price) for price in prices[1:]]] * 20
    pool = space(60_000_000, prices, most, 1_000_003.0, limits=[500] * 20, f=[0.5] * 20, t=[0.5] * 20, q_aux=rates)
    found = search_best(pool)
    assert len(found.counts) == 10
    assert not found.proven, "a search that gave up calls its entries the best"
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
    costs = search_best(pool, 1000).costs
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
    assert search_best(pool).counts[0, 2] == 0, "money is spent on an instance that lowers the bound"


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
    found = search_best(pool)
    costs = found.counts @ pool.prices
    assert (costs == found.costs).all(), "a sum of money wrapped around"
    assert (costs <= pool.budget).all()
    assert grid_of(pool).scale > 0
