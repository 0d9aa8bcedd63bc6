"""The judge of planner flow's benchmark: rates, trials, the second fluid program, the search, what is kept."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from benchmarks.flow import manifests, search, store
from benchmarks.flow.judge import KINDS, LOWEST, RESOLUTION, Judge, Runs, growing, highest
from benchmarks.flow.pools import SMALL as SMALL_SHAPE
from benchmarks.flow.pools import draw_pool, pools, small_pools
from benchmarks.flow.program import best_counts, ceiling, classes_of, fluid_limit
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from hetserve.api.manifests import read_manifests
from hetserve.base.units import Seconds
from hetserve.demand import BatchMix
from hetserve.dispatch import make_policy
from hetserve.planning import Problem, build_problem
from hetserve.profiles import LinearProfile, Spread
from hetserve.simulation.run import simulate
from hetserve.simulation.stability import Backlog, grows
from hetserve.simulation.system import System
from hetserve.simulation.workload import draw_workload
from testing.planning import line, option, problem

pytestmark = pytest.mark.deep

SHORT = Runs("search", 2_000, (1, 2, 3))
SMALL = small_pools(3)


def drawn(number: int) -> Problem:
    return draw_pool(np.random.default_rng([5, number]), f"drawn-{number}", SMALL_SHAPE)


@given(st.floats(0.03, 0.999), st.none() | st.floats(0.01, 1.2))
def test_the_highest_rate_is_found_to_half_a_percent_wherever_it_begins(threshold: float, near: float | None) -> None:
    top = 250.0
    found = highest(lambda rate: rate <= threshold * top, top, None if near is None else near * top)
    if near is not None and near * 0.02 > threshold:
        assert found >= 0
    elif found:
        assert threshold * top * (1 - RESOLUTION) <= found <= threshold * top
    else:
        assert threshold <= LOWEST / 0.93 or (near or 1) < threshold


def test_what_passes_at_no_rate_holds_nothing() -> None:
    assert highest(lambda _: False, 100.0) == 0
    assert highest(lambda _: False, 100.0, near=30.0) == 0


def test_a_backlog_grows_only_if_it_rises_in_every_seed() -> None:
    rising = Backlog(tuple(float(part) for part in range(10)), (1.0,) * 10)
    level = Backlog((1.0,) * 10, (1.0,) * 10)
    assert growing([rising, rising, rising])
    assert grows([rising, rising, level])
    assert not growing([rising, rising, level])


def test_no_kind_of_run_shares_a_seed_with_another_or_with_a_planner() -> None:
    seeds = [seed for runs in KINDS for seed in runs.seeds]
    assert len(set(seeds)) == len(seeds)
    assert min(seeds) > 50_000


def test_the_late_share_is_that_of_the_simulators_reports() -> None:
    pool = SMALL[0]
    judge, numbers = Judge(pool), tuple(1 for _ in pool.types)
    rate = float(f"{0.7 * judge.ceiling(numbers):.6g}")
    found = judge.trial(numbers, rate, SHORT, whole=True)
    system = System.of({o.name: o.profile for o in pool.types}, pool.mix.batches, pool.slo.latency)
    counts = {o.name: 1 for o in pool.types}
    works = [draw_workload(pool.mix, 2_000, seed) for seed in SHORT.seeds]
    reports = [simulate(system, counts, make_policy("hetserve"), work, rate) for work in works]
    assert found.late == pytest.approx(sum(report.violations for report in reports) / 6_000, abs=1e-6)
    assert found.passed == (found.steady and found.late <= judge.allowed)


def test_a_stopped_trial_decides_as_a_whole_one() -> None:
    pool = SMALL[0]
    judge, numbers = Judge(pool), tuple(1 for _ in pool.types)
    near = highest(lambda rate: judge.trial(numbers, rate, SHORT, whole=True).passed, judge.ceiling(numbers))
    rates = [share * near for share in (0.5, 0.97, 0.99, 1.0, 1.02, 1.04, 1.07, 1.2, 2.0)]
    whole = [judge.trial(numbers, rate, SHORT, whole=True) for rate in rates]
    assert [judge.passes(numbers, rate, SHORT) for rate in rates] == [trial.passed for trial in whole]
    assert (whole[3].passed, whole[-2].passed) == (True, False)
    assert any(0 < trial.late <= judge.allowed for trial in whole)


def test_a_trial_that_was_made_is_not_made_again() -> None:
    first = Judge(SMALL[0])
    numbers = tuple(1 for _ in SMALL[0].types)
    rate = first.rate(numbers, SHORT)
    again = Judge(SMALL[0], first.memo)
    assert again.rate(numbers, SHORT) == rate
    assert (again.made, first.made > 0) == (0, True)
    assert Judge(SMALL[0], first.memo, "fcfs").rate(numbers, SHORT) <= first.ceiling(numbers)


def test_one_type_and_one_batch_hold_their_time() -> None:
    one = problem([option("a", "1", line(20.0))], budget="4.5", slo_ms=100)
    assert fluid_limit(one, (3,), classes_of(one)) == pytest.approx(150)
    most, least = best_counts(one, classes_of(one), 0.01), best_counts(one, classes_of(one), 0.01, load=101)
    assert most is not None
    assert least is not None
    assert (most[0], least[0]) == ((4,), (3,))
    assert most[1] == pytest.approx(200)
    assert least[1] == pytest.approx(101)


def test_the_probability_of_a_miss_is_that_of_drawn_service_times() -> None:
    noisy = LinearProfile(Seconds(0.01), Seconds(0.0), None, Spread.of_variation(0.1))
    one = problem([option("a", "1", noisy), option("b", "1", line(5.0))], slo_ms=10.5, mix=BatchMix.single())
    late = classes_of(one).late
    draws = np.random.default_rng(1).random(200_000)
    times = 0.01 * np.interp(draws, noisy.spread(1).probabilities, noisy.spread(1).ratios)  # type: ignore[union-attr]
    assert late[0, 0] == pytest.approx(float((times > 0.0105).mean()), abs=0.003)
    assert late[1, 0] == 0


@pytest.mark.parametrize("number", range(4))
def test_the_program_finds_the_best_of_all_configurations(number: int) -> None:
    pool = small_pools(8)[number + 3]
    classes, share = classes_of(pool), 1 - pool.slo.percentile / 100
    best, top = best_counts(pool, classes, share), ceiling(pool, classes)
    assert best is not None
    assert top is not None
    every = max(fluid_limit(pool, numbers, classes) for numbers in search.maximal(pool))
    assert every * (1 - 1e-6) <= top <= every * 1.002
    assert best[1] <= top
    assert search.cost(pool, best[0]) <= (pool.budget or 0)


@pytest.mark.parametrize("pool", SMALL, ids=lambda pool: pool.service)
def test_no_simulated_rate_exceeds_the_fluid_limit(pool: Problem) -> None:
    judge, classes = Judge(pool), classes_of(pool)
    for numbers in search.maximal(pool)[:4]:
        assert judge.rate(numbers, SHORT) <= fluid_limit(pool, numbers, classes) * 1.05


@given(st.integers(0, 40), st.integers(0, 10**6))
@settings(max_examples=examples(30), deadline=None)
def test_neighbours_keep_the_budget_and_leave_no_room(number: int, pick: int) -> None:
    pool = drawn(number)
    every = search.maximal(pool)
    numbers = every[pick % len(every)]
    found = list(search.neighbours(pool, numbers))
    assert numbers not in found
    assert len(set(found)) == len(found)
    assert set(found) <= set(every)


def test_maximal_configurations_are_those_of_a_plain_search() -> None:
    pool = SMALL[0]
    budget, prices = int(pool.budget or 0), [option.price for option in pool.types]
    ranges = (range(budget // price + 1) for price in prices)
    every = {n for n in itertools.product(*ranges) if 0 <= budget - search.cost(pool, n) < min(prices)}
    assert set(search.maximal(pool)) == every


@given(st.integers(0, 40), st.lists(st.integers(0, 4), min_size=4, max_size=4))
def test_cheaper_neighbours_cost_less_and_differ_in_two_types_at_most(number: int, counts: list[int]) -> None:
    pool = drawn(number)
    numbers = tuple(counts[: len(pool.types)])
    for one in search.cheaper(pool, numbers):
        assert search.cost(pool, one) < search.cost(pool, numbers)
        assert sum(a != b for a, b in zip(one, numbers, strict=True)) <= 2
        assert min(one) >= 0


@given(st.floats(0.02, 1.0))
def test_the_largest_saturation_is_found_within_a_few_percent(threshold: float) -> None:
    found = search.largest_saturation(lambda saturation: saturation <= threshold)
    assert threshold - 0.02 <= found <= threshold


def test_an_exhaustive_search_misses_nothing_that_is_better(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "SEARCH", SHORT)
    pool = SMALL[2]
    looked = search.MostSearch.of(Judge(pool))
    every = search.maximal(pool)
    looked.add(every[0])
    looked.try_all(every)
    best = looked.best[1]
    for numbers in every[:: max(len(every) // 6, 1)]:
        assert looked.judge.rate(numbers, SHORT) <= best * (search.BETTER + RESOLUTION)


def test_a_record_is_kept_while_problem_and_simulation_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "FOLDER", tmp_path)
    first, other = pools(2)
    kept = store.opened(first)
    kept.memo["hetserve|search|1|2"] = (0.5, True, False)
    kept.save()
    assert not store.is_measured(first)
    kept.record, kept.code = {"seconds": 1.0}, "old planners"
    kept.save()
    assert store.opened(first) == kept
    assert not store.is_measured(first)
    assert store.is_measured(first, of_any_code=True)
    assert [one["code"] for one in store.records([first.service, other.service])] == ["old planners"]
    store.path_of(first.service).rename(store.path_of(other.service))
    assert store.opened(other).memo == {}
    assert [path.name for path in tmp_path.iterdir()] == [f"{other.service}.json"]


@pytest.mark.parametrize("pool", pools(8), ids=lambda pool: pool.service)
def test_the_manifests_of_a_pool_are_the_same_problem(pool: Problem, tmp_path: Path) -> None:
    read = read_manifests([str(manifests.write(pool, tmp_path))])
    again = build_problem(read.services[0], read.types, read.profiles)
    assert isinstance(again, Problem)
    assert again.types == tuple(sorted(pool.types, key=lambda option: option.name))
    assert (again.slo, again.budget, again.objective) == (pool.slo, pool.budget, pool.objective)
    assert again.mix.batches == pool.mix.batches
    assert again.mix.shares == pytest.approx(pool.mix.shares, rel=1e-12)
