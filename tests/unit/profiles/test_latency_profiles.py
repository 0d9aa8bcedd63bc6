from __future__ import annotations

import csv

import numpy as np
import pytest

from hetserve.base.units import Seconds
from hetserve.profiles import TableProfile, profile_from_spec
from testing.data import reference_data
from testing.planning import kairos_types, line, model_profile, table


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


def test_a_p99_alone_means_a_log_normal_around_the_mean() -> None:
    profile = table({1: (100, 123.263)})
    assert profile.quantile(1, 99) == pytest.approx(0.123263)
    assert profile.quantile(1, 90) == pytest.approx(0.1120, abs=2e-4)
    assert profile.quantile(1, 50) == pytest.approx(0.0996, abs=2e-4)


def test_an_entry_without_a_spread_has_that_of_its_neighbours() -> None:
    profile = table({1: 10, 2: (20, 30), 3: 40, 4: (50, 100), 9: 60})
    ratios = [profile.quantile(b, 99) / profile.mean(b) for b in (1, 2, 3, 4, 9)]  # type: ignore[operator]
    assert ratios == pytest.approx([1.5, 1.5, 1.75, 2.0, 2.0])


def test_where_nothing_is_known_of_the_spread_every_quantile_is_the_mean() -> None:
    for profile in (line(10, 2), table({1: 12, 4: 18})):
        assert profile.quantile(1, 99) == profile.quantile(1, 51) == profile.mean(1)


def test_beyond_the_largest_batch_there_is_no_spread() -> None:
    for profile in (line(10, max_batch=4), table({1: 12, 4: (18, 20)})):
        assert profile.spread(4) is not None
        assert profile.spread(5) is None
        assert profile.quantile(5, 99) is None


def test_a_table_ends_at_the_smaller_of_its_last_batch_and_max_batch() -> None:
    spec = model_profile("m", "t", latency={"table": [{"batch": 1, "mean": "1ms"}, {"batch": 9, "mean": "9ms"}]}).spec
    assert profile_from_spec(spec).max_batch == 9
    assert profile_from_spec(spec.model_copy(update={"max_batch": 4})).max_batch == 4
    assert profile_from_spec(spec.model_copy(update={"max_batch": 40})).max_batch == 9


def test_a_broken_table_is_refused() -> None:
    with pytest.raises(ValueError, match="strictly increasing, got \\[2, 2\\]"):
        TableProfile((2, 2), (Seconds(1.0), Seconds(1.0)))
    with pytest.raises(ValueError, match="at least one entry"):
        TableProfile((), ())


@pytest.mark.data
def test_the_lines_of_the_rm2_sample_are_the_least_squares_fit_of_the_measurements() -> None:
    with reference_data("kairos/latency.csv").open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["model"] == "RM2"]
    for option in kairos_types():
        own = [row for row in rows if row["instance"] == option.name]
        slope, intercept = np.polyfit([int(r["batch"]) for r in own], [float(r["latency_ms"]) for r in own], 1)
        assert option.profile.mean(0) == pytest.approx(intercept / 1e3, abs=1e-7)
        assert option.profile.mean(1000) == pytest.approx((intercept + 1000 * slope) / 1e3, abs=1e-6)
