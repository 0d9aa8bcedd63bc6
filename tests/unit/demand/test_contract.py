from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.utils import floatToGoString

from hetserve.base.units import Seconds
from hetserve.demand import contract

THRESHOLDS = st.sets(st.integers(1, 1_000_000), max_size=30)


@given(THRESHOLDS)
def test_every_threshold_and_every_power_of_two_is_a_bound(thresholds: set[int]) -> None:
    bounds = contract.batch_bounds(thresholds)
    assert {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024} | thresholds == set(bounds)
    assert all(a < b for a, b in pairwise(bounds))


@pytest.mark.parametrize("wrong", [0, -8])
def test_a_threshold_below_one_item_is_refused(wrong: int) -> None:
    with pytest.raises(ValueError, match=f"threshold batch {wrong}: must be at least 1"):
        contract.batch_bounds([8, wrong])


@given(st.floats(1e-6, 1e4))
def test_the_slo_is_a_bound_of_the_durations(slo: float) -> None:
    bounds = contract.latency_bounds(Seconds(slo))
    assert slo in bounds
    assert bounds[0] <= 0.001
    assert bounds[-1] >= 100
    assert all(a < b for a, b in pairwise(bounds))


@pytest.mark.parametrize("wrong", [0.0, -1.0, math.nan, math.inf])
def test_an_slo_that_is_no_time_is_refused(wrong: float) -> None:
    with pytest.raises(ValueError, match=f"slo {wrong}: must be a positive number of seconds"):
        contract.latency_bounds(Seconds(wrong))


@given(st.one_of(st.floats(1e-6, 1e9), st.integers(1, 10**9).map(float), st.just(math.inf)))
def test_a_bound_is_written_as_prometheus_writes_it(bound: float) -> None:
    assert contract.bound_label(bound) == floatToGoString(bound)  # type: ignore[no-untyped-call]


def test_bounds_as_a_query_names_them() -> None:
    assert [contract.bound_label(b) for b in (0.35, 1, 1024, 1_000_000)] == ["0.35", "1.0", "1024.0", "1e+06"]
