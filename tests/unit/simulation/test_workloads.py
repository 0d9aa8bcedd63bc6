from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from hetserve.demand import BatchMix, kairos_mixture, parse_batches
from hetserve.registry.choices import Arrivals
from hetserve.simulation.workload import draw_workload, record_workload

MIX = BatchMix.of([(1, 3.0), (10, 1.0)])


class TestArrivals:
    def test_rates_stretch_the_same_draws(self) -> None:
        work = draw_workload(MIX, 1000, seed=4)
        np.testing.assert_allclose(work.times(10.0), work.times(5.0) / 2)

    @pytest.mark.parametrize("arrivals", [Arrivals.EXPONENTIAL, Arrivals.INTEGER_POISSON])
    @pytest.mark.parametrize("rate", [50.0, 1000.0, 7000.0])
    def test_the_mean_rate_is_the_one_asked_for(self, arrivals: Arrivals, rate: float) -> None:
        work = draw_workload(MIX, 200_000, 4, arrivals)
        assert len(work) / work.times(rate)[-1] == pytest.approx(rate, rel=0.02)

    def test_integer_poisson_gaps_are_whole_milliseconds_with_variance_equal_to_the_mean(self) -> None:
        gaps = np.diff(draw_workload(MIX, 100_000, 4, Arrivals.INTEGER_POISSON).times(100.0)) * 1000
        np.testing.assert_allclose(gaps, np.round(gaps), atol=1e-4)
        assert gaps.var() == pytest.approx(10.0, rel=0.02)

    def test_exponential_gaps_have_a_deviation_equal_to_the_mean(self) -> None:
        gaps = np.diff(draw_workload(MIX, 100_000, 4).times(100.0))
        assert gaps.std() == pytest.approx(0.01, rel=0.02)

    def test_recorded_times_are_replayed_at_their_own_rate(self) -> None:
        work = record_workload([5.0, 5.5, 8.0], [10, 1, 10], seed=1)
        np.testing.assert_allclose(work.times(2 / 3), [0.0, 0.5, 3.0])
        assert [work.batches[size] for size in work.sizes] == [10, 1, 10]

    @pytest.mark.parametrize(
        ("times", "message"),
        [
            ([1.0, 0.5], "time 0.5 at position 1"),
            ([1.0, math.nan], "time nan at position 1"),
            ([1.0], "1 times"),
            ([2.0, 2.0], "2 times"),
        ],
    )
    def test_recorded_times_that_make_no_sense_are_refused(self, times: list[float], message: str) -> None:
        with pytest.raises(ValueError, match=message):
            record_workload(times, MIX, seed=1)

    def test_recorded_batches_must_be_one_per_time(self) -> None:
        with pytest.raises(ValueError, match="3 times need as many batches"):
            record_workload([0.0, 1.0, 2.0], [1, 2], seed=1)


class TestDraws:
    def test_equal_seeds_draw_the_same_and_others_do_not(self) -> None:
        a, b, c = (draw_workload(MIX, 50, seed) for seed in (1, 1, 2))
        assert a.service_draws.tolist() == b.service_draws.tolist() != c.service_draws.tolist()
        assert a.sizes.tolist() == b.sizes.tolist()

    def test_more_queries_begin_as_fewer_do(self) -> None:
        few, many = draw_workload(MIX, 10, 1), draw_workload(MIX, 20, 1)
        assert many.sizes[:10].tolist() == few.sizes.tolist()
        assert many.gaps[:10].tolist() == few.gaps.tolist()

    def test_batches_come_in_their_shares(self) -> None:
        assert draw_workload(MIX, 100_000, 1).sizes.mean() == pytest.approx(0.25, abs=0.01)

    @pytest.mark.parametrize(("queries", "seed", "message"), [(0, 1, "queries 0"), (5, -1, "seed -1")])
    def test_impossible_draws_are_refused(self, queries: int, seed: int, message: str) -> None:
        with pytest.raises(ValueError, match=message):
            draw_workload(MIX, queries, seed)


def _mean(mix: BatchMix) -> float:
    return math.fsum(b * s for b, s in zip(mix.batches, mix.shares, strict=True))


class TestBatches:
    def test_the_mixture_is_kaiross(self) -> None:
        assert parse_batches("mixture") == kairos_mixture()

    def test_a_normal_mix_has_its_mean_and_deviation(self) -> None:
        mix = parse_batches("normal:165,16")
        mean = _mean(mix)
        assert mean == pytest.approx(165, abs=0.01)
        variance = math.fsum((b - mean) ** 2 * s for b, s in zip(mix.batches, mix.shares, strict=True))
        assert math.sqrt(variance) == pytest.approx(16, rel=0.01)

    def test_a_log_normal_mix_has_its_mean(self) -> None:
        assert _mean(parse_batches("lognormal:5.1,0.2")) == pytest.approx(math.exp(5.1 + 0.02), rel=1e-3)

    def test_bells_are_cut_off_at_one_and_the_largest_batch(self) -> None:
        mix = parse_batches("normal:500,400", largest=600)
        assert (mix.batches[0], mix.largest) == (1, 600)

    @pytest.mark.parametrize(
        ("text", "batches"),
        [
            ("batch,weight\n10,3\n20,1\n", ((10, 0.75), (20, 0.25))),
            ("batch_bin,probability,cumulative\n10,0.5,0.5\n20,0.5,1\n", ((10, 0.5), (20, 0.5))),
            ("batch\n10\n10\n10\n20\n", ((10, 0.75), (20, 0.25))),
        ],
    )
    def test_files_hold_weights_or_recorded_queries(
        self, text: str, batches: tuple[tuple[int, float], ...], tmp_path: Path
    ) -> None:
        path = tmp_path / "mix.csv"
        path.write_text(text)
        mix = parse_batches(str(path))
        assert tuple(zip(mix.batches, mix.shares, strict=True)) == batches

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("items\n3\n", "no column `batch`; columns are: items"),
            ("", "no column `batch`; columns are: none"),
            ("batch\n10\nten\n", "line 3, column batch: 'ten' is not a whole number"),
            ("batch\n0\n", "line 2, column batch: '0' is not a whole number of at least 1"),
            ("batch\n2.5\n", "'2.5' is not a whole number"),
            ("batch,weight\n10,nan\n", "line 2, column weight: 'nan' is not a number of at least 0"),
            ("batch,weight\n10,-1\n", "column weight: '-1'"),
            ("batch,weight\n10,\n", "column weight: ''"),
            ("batch,weight\n", "the mix of batch sizes is empty"),
        ],
    )
    def test_a_bad_file_is_named_with_line_column_and_value(self, text: str, message: str, tmp_path: Path) -> None:
        path = tmp_path / "mix.csv"
        path.write_text(text)
        with pytest.raises(ValueError, match=message):
            parse_batches(str(path))

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("normal:165", "need two numbers, for example normal:165,16"),
            ("lognormal:a,b", "need two numbers, for example lognormal:165,16"),
            ("normal:165,0", "deviation a positive number"),
            ("normal:nan,3", "the mean must be finite"),
            ("normal:90000,3", "no batch size between 1 and 1000 has any weight"),
            ("gauss:1,2", "no such file; write mixture, normal:MEAN,SD"),
        ],
    )
    def test_a_text_that_is_no_mix_says_what_would_be(self, text: str, message: str) -> None:
        with pytest.raises(ValueError, match=message):
            parse_batches(text)
