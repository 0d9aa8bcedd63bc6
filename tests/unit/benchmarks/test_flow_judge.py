"""The judge of planner flow's benchmark: rates, trials, the second fluid program, the search, what is kept."""

from __future__ import annotations

import pytest
from benchmarks.flow import search
from benchmarks.flow.judge import KINDS, LOWEST, RESOLUTION, Judge, Runs, growing, highest
from benchmarks.flow.pools import small_pools
from benchmarks.flow.program import best_counts, ceiling, classes_of, fluid_limit
from hypothesis import given
from hypothesis import strategies as st

from hetserve.simulation.stability import Backlog, grows

pytestmark = pytest.mark.deep

SHORT = Runs("search", 2_000, (1, 2, 3))
SMALL = small_pools(3)


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


def test_a_stopped_trial_decides_as_a_whole_one() -> None:
    pool = SMALL[0]
    judge, numbers = Judge(pool), tuple(1 for _ in pool.types)
    near = highest(lambda rate: judge.trial(numbers, rate, SHORT, whole=True).passed, judge.ceiling(numbers))
    rates = [share * near for share in (0.5, 0.97, 0.99, 1.0, 1.02, 1.04, 1.07, 1.2, 2.0)]
    whole = [judge.trial(numbers, rate, SHORT, whole=True) for rate in rates]
    assert [judge.passes(numbers, rate, SHORT) for rate in rates] == [trial.passed for trial in whole]
    assert (whole[3].passed, whole[-2].passed) == (True, False)
    assert any(0 < trial.late <= judge.allowed for trial in whole)


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
