from __future__ import annotations

import csv

import numpy as np
import pytest

from hetserve.profiles import TableProfile, profile_from_spec
from hetserve.testing.data import reference_data
from hetserve.testing.planning import kairos_types, line, model_profile, table
from hetserve.units import Seconds


def test_a_line_answers_up_to_its_largest_batch() -> None:
    profile = line(10, 2, max_batch=8)
    assert profile.mean(1) == pytest.approx(0.012)
    assert profile.quantile(8, 99) == pytest.approx(0.026)
    assert profile.mean(9) is None
    assert profile.quantile(9, 99) is None


def test_a_table_interpolates_holds_below_and_ends_above() -> None:
    profile = table({2: 10, 4: 20, 8: 12})
    assert [profile.mean(b) for b in (1, 2, 3, 4, 6, 8)] == pytest.approx([0.010, 0.010, 0.015, 0.020, 0.016, 0.012])
    assert profile.mean(9) is None


def test_the_spread_is_scaled_to_the_percentile_and_missing_spread_is_the_mean() -> None:
    profile = table({1: (100, 123.263), 2: 50})
    assert profile.quantile(1, 99) == pytest.approx(0.123263)
    assert profile.quantile(1, 84.134) == pytest.approx(0.110, abs=1e-5)
    assert profile.quantile(2, 99) == pytest.approx(0.050)


def test_a_table_ends_at_the_smaller_of_its_last_batch_and_max_batch() -> None:
    spec = model_profile("m", "t", latency={"table": [{"batch": 1, "mean": "1ms"}, {"batch": 9, "mean": "9ms"}]}).spec
    assert profile_from_spec(spec).max_batch == 9
    assert profile_from_spec(spec.model_copy(update={"max_batch": 4})).max_batch == 4
    assert profile_from_spec(spec.model_copy(update={"max_batch": 40})).max_batch == 9


def test_a_broken_table_is_refused() -> None:
    with pytest.raises(ValueError, match="strictly increasing, got \\[2, 2\\]"):
        TableProfile((2, 2), (Seconds(1.0), Seconds(1.0)), (None, None))
    with pytest.raises(ValueError, match="at least one entry"):
        TableProfile((), (), ())


@pytest.mark.data
def test_the_lines_of_the_rm2_sample_are_the_least_squares_fit_of_the_measurements() -> None:
    with reference_data("kairos/latency.csv").open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["model"] == "RM2"]
    for option in kairos_types():
        own = [row for row in rows if row["instance"] == option.name]
        slope, intercept = np.polyfit([int(r["batch"]) for r in own], [float(r["latency_ms"]) for r in own], 1)
        assert option.profile.mean(0) == pytest.approx(intercept / 1e3, abs=1e-7)
        assert option.profile.mean(1000) == pytest.approx((intercept + 1000 * slope) / 1e3, abs=1e-6)
