"""The generator of random pools: reproducible, valid, of the announced shape, with names that say nothing."""

from __future__ import annotations

from benchmarks.flow.pools import large_pool, pools, small_pools

from hetserve.planning import Problem, TypeOption
from hetserve.planning.slo import serves_whole_mix
from hetserve.planning.validate import problem_error, unattainable

POOLS = pools(60)


def slowest(option: TypeOption, problem: Problem) -> float:
    return option.profile.mean(problem.mix.largest) or float("inf")


def test_a_pool_depends_on_its_number_and_the_seed_not_on_how_many_are_drawn() -> None:
    assert pools(7) == POOLS[:7]
    assert small_pools(2) == small_pools(5)[:2]
    assert not set(pools(7, seed=1)) & set(POOLS)


def test_every_pool_is_valid_and_its_fast_type_serves_every_batch() -> None:
    for problem in (*POOLS, *small_pools(8), large_pool(40, 0)):
        assert problem_error(problem) is None, problem.service
        assert unattainable(problem) is None, problem.service
        fast = min(problem.types, key=lambda option: slowest(option, problem))
        assert serves_whole_mix(fast, problem), problem.service
        assert fast.price <= (problem.budget or 0), problem.service
