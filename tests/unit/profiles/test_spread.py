from __future__ import annotations

import csv
import math

import numpy as np
import pytest

from hetserve.profiles import CONSTANT, KNOTS, LatencyProfile, Spread, dense
from testing.data import reference_data
from testing.planning import line, table


def test_measured_quantiles_are_kept_and_the_curve_between_them_is_bent_to_the_mean() -> None:
    measured = {0.0: 0.8, 0.5: 0.97, 0.9: 1.2, 0.99: 1.5, 1.0: 2.0}
    spread = Spread.of_quantiles(measured)
    assert spread.on(tuple(measured)) == pytest.approx(tuple(measured.values()))
    assert spread.mean == pytest.approx(1.0)
    assert 0.97 < spread.ratio(0.75) < 1.2


def test_quantiles_that_contradict_their_mean_are_believed() -> None:
    measured = {0.0: 1.5, 0.5: 2.0, 0.99: 3.0, 1.0: 4.0}
    spread = Spread.of_quantiles(measured)
    assert spread.on(tuple(measured)) == pytest.approx(tuple(measured.values()))
    assert spread.mean > 1.5


def test_a_tail_that_was_not_measured_is_log_normal() -> None:
    sigma = math.log(1.5 / 0.985) / 2.3263478740
    spread = Spread.of_quantiles({0.5: 0.985, 0.99: 1.5})
    assert spread.ratio(0.999) == pytest.approx(math.exp(3.0902323 * sigma), rel=0.02)
    assert spread.ratio(0.01) == pytest.approx(0.985**2 / 1.5, rel=0.02)
    assert spread.ratio(0.0) > 0


@pytest.mark.parametrize("p99", [1.0, 1.05, 1.5, 4.0, 14.0])
def test_a_p99_alone_gives_a_log_normal_whose_mean_is_the_mean(p99: float) -> None:
    spread = Spread.of_quantiles({0.99: p99})
    assert spread.ratio(0.99) == pytest.approx(p99)
    assert pytest.approx(spread.mean, rel=0.02 * p99) == 1.0


def test_a_p99_beyond_any_log_normal_still_rises() -> None:
    spread = Spread.of_quantiles({0.99: 100.0})
    assert spread.ratio(0.99) == 100.0
    assert spread.ratio(0.5) < spread.ratio(0.9) < 100.0 < spread.ratio(1.0)


@pytest.mark.parametrize("coefficient", [0.0, 0.002, 0.05, 0.24, 1.0])
def test_a_coefficient_of_variation_is_what_is_drawn(coefficient: float) -> None:
    spread = Spread.of_variation(coefficient)
    drawn = np.interp((np.arange(100_000) + 0.5) / 100_000, spread.probabilities, spread.ratios)
    assert drawn.mean() == pytest.approx(1.0, abs=1e-6)
    assert drawn.std() == pytest.approx(coefficient, rel=0.12)
    assert spread.mean == pytest.approx(1.0)


def test_two_spreads_mix_quantile_by_quantile() -> None:
    middle = CONSTANT.toward(Spread((0.0, 0.5, 1.0), (0.5, 1.0, 3.0)), 0.25)
    assert middle.on((0.0, 0.5, 1.0)) == pytest.approx((0.875, 1.0, 1.5))


@pytest.mark.parametrize(
    ("probabilities", "ratios", "why"),
    [
        ((0.0, 1.0), (1.0,), "rise from 0 to 1"),
        ((0.1, 1.0), (1.0, 1.0), "rise from 0 to 1"),
        ((0.0, 0.5, 0.5, 1.0), (1.0, 1.0, 1.0, 1.0), "rise from 0 to 1"),
        ((0.0, 1.0), (1.0, 0.9), "not decrease"),
        ((0.0, 1.0), (0.0, 0.9), "positive"),
        ((0.0, 1.0), (0.5, math.nan), "positive"),
    ],
)
def test_a_broken_spread_is_refused(probabilities: tuple[float, ...], ratios: tuple[float, ...], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        Spread(probabilities, ratios)


def test_values_that_give_no_spread_are_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"coefficient of variation -0\.1"):
        Spread.of_variation(-0.1)
    with pytest.raises(ValueError, match="coefficient of variation nan"):
        Spread.of_variation(math.nan)
    with pytest.raises(ValueError, match="needs a quantile between min and max"):
        Spread.of_quantiles({0.0: 0.5, 1.0: 2.0})
    with pytest.raises(ValueError, match=r"probability 1\.1"):
        CONSTANT.ratio(1.1)


def test_dense_arrays_say_what_the_profiles_say() -> None:
    profiles: tuple[LatencyProfile, ...] = (table({10: (20, 30), 40: (50, 60), 90: 40}), line(5, 1, max_batch=50))
    batches = (1, 10, 25, 50, 90)
    arrays = dense(profiles, batches)
    assert arrays.batches.tolist() == list(batches)
    assert arrays.probabilities.tolist() == list(KNOTS)
    assert arrays.ratios.shape == (2, 5, len(KNOTS))
    for i, profile in enumerate(profiles):
        for j, batch in enumerate(batches):
            for percentile in (51.0, 90.0, 97.0, 99.0, 99.95):
                expected = profile.quantile(batch, percentile)
                at = arrays.quantiles(percentile)[i, j]
                assert at == (math.inf if expected is None else pytest.approx(expected))
    assert arrays.means[1].tolist() == pytest.approx([0.006, 0.015, 0.030, 0.055, math.inf])


def test_dense_arrays_cannot_be_written() -> None:
    arrays = dense((line(5),), (1, 2))
    for array in (arrays.batches, arrays.means, arrays.probabilities, arrays.ratios):
        assert not array.flags.writeable


@pytest.mark.parametrize("batches", [(), (2, 1), (1, 1), (0, 1)], ids=str)
def test_batches_that_are_no_grid_are_refused(batches: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="batch"):
        dense((line(5),), batches)
    with pytest.raises(ValueError, match="0 profiles"):
        dense((), (1,))


@pytest.mark.data
def test_the_deviation_of_what_is_drawn_is_the_measured_one() -> None:
    with reference_data("kairos/latency_spread.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    quantiles = {"min_ms": 0.0, "p50_ms": 0.5, "p90_ms": 0.9, "p99_ms": 0.99, "max_ms": 1.0}
    at, ratios = (np.arange(5_000) + 0.5) / 5_000, []
    for row in rows:
        mean = float(row["mean_ms"])
        spread = Spread.of_quantiles({p: float(row[column]) / mean for column, p in quantiles.items()})
        assert spread.mean == pytest.approx(1.0)
        drawn = np.interp(at, spread.probabilities, spread.ratios)
        ratios.append(drawn.std() * mean / float(row["std_ms"]))
    assert len(ratios) == 440
    assert np.median(ratios) == pytest.approx(1.0, abs=0.03)
    assert np.mean(np.abs(np.array(ratios) - 1) < 0.15) > 0.9
