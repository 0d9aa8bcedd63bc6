from __future__ import annotations

import math
import statistics
from typing import Any

import pytest
from scipy.stats import t as student

from hetserve.dispatch import make_policy
from hetserve.simulation.allowable import Allowable, RateTrial, TrialSetup, allowable_throughput
from hetserve.simulation.criteria import Confident, Criterion, PerSeed, Pooled, student_t95
from hetserve.simulation.run import simulate
from hetserve.simulation.workload import draw_workload
from testing.dispatching import EVEN_MIX, system

FCFS = make_policy("fcfs")
TWO = {"a": 2}
SEEDS = (11, 12, 13)


def _search(
    bound: float,
    criterion: Criterion | None = None,
    seeds: tuple[int, ...] = SEEDS,
    percentile: float = 99.0,
    step: float = 0.02,
    **options: Any,
) -> Allowable:
    judged = TrialSetup(system(), TWO, FCFS, percentile, criterion or Confident())
    works = [draw_workload(EVEN_MIX, 4000, seed) for seed in seeds]
    return allowable_throughput(judged, works, bound, step=step, **options)


class TestScan:
    def test_the_rate_passes_and_the_next_higher_one_of_the_grid_does_not(self) -> None:
        found = _search(6.0)
        last, before = found.trials[-1], found.trials[-2]
        assert (last.rate, last.passed, before.passed) == (found.rate, True, False)
        assert before.rate - last.rate == pytest.approx(6.0 * 0.02)

    def test_the_ratios_are_those_of_single_runs(self) -> None:
        found = _search(6.0)
        for seed, ratio in zip(SEEDS, found.trials[-1].ratios, strict=True):
            report = simulate(system(), TWO, FCFS, draw_workload(EVEN_MIX, 4000, seed), found.rate)
            assert report.violation_ratio == ratio

    def test_a_bound_that_passes_is_not_the_end(self) -> None:
        low, high = _search(2.0), _search(6.0)
        assert low.rate > 2.0
        assert low.rate == pytest.approx(high.rate, rel=0.04)

    def test_nothing_passes_where_service_alone_is_too_slow(self) -> None:
        slow = system((0.2, 0.25, 0.4, 2.0))
        judged = TrialSetup(slow, {"a": 1}, FCFS, 99.0, Confident())
        assert allowable_throughput(judged, [draw_workload(EVEN_MIX, 200, k) for k in SEEDS], 3.0, step=0.1).rate == 0.0

    def test_threads_change_nothing(self) -> None:
        alone, together = _search(6.0), _search(6.0, threads=3)
        assert together.rate == alone.rate
        assert together.trials[: len(alone.trials)] == alone.trials

    def test_progress_reports_every_trial_in_order(self) -> None:
        told: list[RateTrial] = []
        found = _search(6.0, progress=told.append)
        assert tuple(told) == found.trials

    def test_each_seed_has_its_own_rate_where_seeds_are_judged_alone(self) -> None:
        found = _search(6.0, criterion=PerSeed(), seeds=(1, 2))
        assert len(found.per_seed) == 2
        assert found.rate == statistics.fmean(found.per_seed)

    def test_the_confident_rate_is_not_above_what_seeds_alone_allow(self) -> None:
        assert _search(6.0).rate <= _search(6.0, criterion=PerSeed()).rate

    def test_a_stricter_percentile_allows_less(self) -> None:
        assert _search(6.0, percentile=99.0).rate < _search(6.0, percentile=90.0).rate

    @pytest.mark.parametrize(
        "bad", [{"bound": 0.0}, {"bound": math.nan}, {"step": 0.0}, {"step": 0.6}, {"percentile": 100.0}]
    )
    def test_a_search_out_of_range_is_refused(self, bad: dict[str, Any]) -> None:
        with pytest.raises(ValueError, match="out of range"):
            _search(**{"bound": 6.0, **bad})

    def test_a_confidence_limit_needs_three_seeds(self) -> None:
        with pytest.raises(ValueError, match="2 seeds: a confident limit needs at least 3"):
            _search(6.0, seeds=(1, 2))


class TestConfidence:
    @pytest.mark.parametrize("degrees", [1, 2, 5, 30])
    def test_the_table_is_students(self, degrees: int) -> None:
        assert student_t95(degrees) == pytest.approx(student.ppf(0.95, degrees), abs=1e-4)

    @pytest.mark.parametrize("degrees", [31, 50, 400])
    def test_beyond_the_table_the_expansion_is_close(self, degrees: int) -> None:
        assert student_t95(degrees) == pytest.approx(student.ppf(0.95, degrees), abs=2e-3)

    def test_the_limit_is_above_the_mean_by_the_spread_of_the_seeds(self) -> None:
        assert Confident().limit([0.01, 0.01, 0.01]) == pytest.approx(0.01)
        assert Confident().limit([0.008, 0.01, 0.012]) == pytest.approx(0.01 + 2.92 * 0.002 / math.sqrt(3))

    @pytest.mark.parametrize("reserve", [0.0, 0.12, 0.5])
    def test_a_pooled_run_is_stopped_once_the_mean_is_too_high_whatever_the_last_seed_says(
        self, reserve: float
    ) -> None:
        before, judged = [0.012 * (1 - reserve), 0.01 * (1 - reserve)], Pooled(reserve)
        last = judged.hopeless_above(0.01, 3, before)
        assert judged.limit([*before, last * 0.999]) < 0.01
        assert judged.limit([*before, last * 1.001]) > 0.01
        assert judged.hopeless_above(0.01, 3) == pytest.approx(0.015 * (1 - reserve))

    def test_pooled_runs_are_stopped_once_more_are_late_on_average_than_allowed(self) -> None:
        judged = Pooled(0.1)
        assert judged.hopeless_above(0.01, 3) == pytest.approx(0.0135)
        assert judged.hopeless_above(0.01, 3, [0.011]) == pytest.approx(0.009)
        assert judged.hopeless_above(0.01, 3, [0.011, 0.009]) == pytest.approx(0.007)

    def test_few_enough_late_queries_need_no_other_seed_where_others_follow_that_prove(self) -> None:
        judged = Pooled(0.1)
        assert judged.enough(0.01, [0.0025])
        assert not judged.enough(0.01, [0.0026])
        assert judged.enough(0.01, [0.006, 0.005])
        assert not judged.enough(0.01, [0.001, 0.0061])
        assert not Confident().enough(0.01, [0.0, 0.0])
        assert not PerSeed().enough(0.01, [0.0])

    @pytest.mark.parametrize("seeds", [3, 4, 6, 12])
    def test_a_run_is_stopped_only_where_no_other_seeds_could_save_the_rate(self, seeds: int) -> None:
        stop = Confident().hopeless_above(0.01, seeds)
        for others in (0.0, 0.002, 0.005, 0.009, 0.01, stop):
            assert Confident().limit([stop * 1.001] + [others] * (seeds - 1)) > 0.01
