"""The k best configurations against plain enumeration and exact rationals, on pools rich in ties."""

from __future__ import annotations

import dataclasses
import itertools
from fractions import Fraction

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from effort import examples
from hetserve.planning.configurations import count_configurations
from hetserve.planning.kbest.best import Order, Space, grid_of, list_all
from hetserve.planning.kbest.search import found_by_program
from testing.kbest_pools import small_pool

seeds = st.integers(0, 10**9)
tops = st.sampled_from([1, 3, 10, 25])


def pool_of(seed: int, largest: int = 20_000) -> Space:
    pool = small_pool(seed)
    assume(count_configurations(pool.dimensions, pool.budget) <= largest)
    return pool


@settings(deadline=None, max_examples=examples(60))
@given(seeds, tops)
def test_what_the_program_finds_is_no_better_and_hardly_worse_than_the_best_of_all(seed: int, top: int) -> None:
    pool = pool_of(seed)
    listed = list_all(pool, top)
    assume(len(listed.counts))
    found = found_by_program(pool, grid_of(pool), Order(top))
    assert len(set(map(tuple, found.counts.tolist()))) == len(found.counts)
    assert 0.999 * listed.keys[0] <= found.keys[0] <= listed.keys[0]
    ranked = list_all(pool)
    places = {tuple(row): place for place, row in enumerate(ranked.counts.tolist())}
    found_places = [places[tuple(row)] for row in found.counts.tolist()]
    assert found_places == sorted(found_places), "not in order, or beyond a limit"


def exact_bounds(pool: Space) -> dict[tuple[int, ...], tuple[Fraction, int]]:
    """Bound in rationals (closed form, from the pool's own numbers) and cost of every configuration."""
    found = {}
    ranges = [range(least, most + 1) for least, most in zip(pool.least.tolist(), pool.most.tolist(), strict=True)]
    for counts in itertools.product(*ranges):
        cost = sum(n * int(price) for n, price in zip(counts, pool.prices, strict=True))
        new = np.maximum(np.array(counts) - pool.running, 0)
        if cost > pool.budget or (len(pool.free) and (pool.demand @ new > pool.free).any()):
            continue
        present = [i for i, n in enumerate(counts[1:]) if n]
        bound = counts[0] * Fraction(pool.q_base)
        if present:
            leader = max(present, key=lambda i: int(pool.limits[i]))
            f, t = Fraction(float(pool.f[leader])), Fraction(float(pool.t[leader]))
            if f > 0 and t > 0:
                rate = sum(counts[1 + i] * Fraction(float(pool.q_aux[leader, i])) for i in present)
                linear = bound + t / f * rate
                bound = linear if t >= 1 else min(linear, bound / (1 - t))
        found[counts] = (bound, cost)
    return found


@settings(deadline=None, max_examples=examples(100))
@given(seeds)
def test_the_ranking_is_that_of_exact_rationals_up_to_the_grid(seed: int) -> None:
    pool = pool_of(seed, 3000)
    assume(all(most <= 60 for most in pool.most.tolist()))
    exact, found = exact_bounds(pool), list_all(pool, 10)
    assert len(found.counts) == min(len(exact), 10)
    if not exact:
        return
    step = Fraction(grid_of(pool).scale) * 2**14
    order = sorted(exact.values(), key=lambda value: (-value[0], value[1]))
    for row, cost, best in zip(found.counts.tolist(), found.costs.tolist(), order, strict=False):
        bound, exact_cost = exact[tuple(row)]
        assert cost == exact_cost
        assert abs(bound - best[0]) <= 2 * step, f"{row} has bound {float(bound)}, the exact one there {float(best[0])}"


@settings(deadline=None, max_examples=examples(100))
@given(seeds, st.integers(2, 5000))
def test_prices_in_another_currency_change_nothing(seed: int, factor: int) -> None:
    pool = pool_of(seed)
    other = dataclasses.replace(pool, prices=pool.prices * factor, budget=pool.budget * factor)
    one, two = list_all(pool, 10), list_all(other, 10)
    assert two.counts.tolist() == one.counts.tolist()
    assert two.costs.tolist() == [cost * factor for cost in one.costs.tolist()]


@settings(deadline=None, max_examples=examples(100))
@given(seeds, st.sampled_from([0.001, 0.3, 3.0, 1024.0, 1e6]))
def test_rates_in_another_unit_change_nothing(seed: int, factor: float) -> None:
    pool = pool_of(seed)
    other = dataclasses.replace(pool, q_base=pool.q_base * factor, q_aux=pool.q_aux * factor)
    assert list_all(other, 10).counts.tolist() == list_all(pool, 10).counts.tolist()


@settings(deadline=None, max_examples=examples(100))
@given(seeds, st.randoms(use_true_random=False))
def test_the_order_of_the_auxiliaries_changes_no_bound_and_no_cost(seed: int, random: object) -> None:
    pool = pool_of(seed)
    order = list(range(len(pool.limits)))
    random.shuffle(order)  # type: ignore[attr-defined]
    columns = [0, *(1 + i for i in order)]
    other = dataclasses.replace(
        pool,
        prices=pool.prices[columns],
        least=pool.least[columns],
        most=pool.most[columns],
        running=pool.running[columns],
        demand=pool.demand[:, columns],
        limits=pool.limits[order],
        f=pool.f[order],
        t=pool.t[order],
        q_aux=pool.q_aux[np.ix_(order, order)],
    )
    one, two = list_all(pool, 10), list_all(other, 10)
    assert two.keys.tolist() == one.keys.tolist()
    assert two.costs.tolist() == one.costs.tolist()
