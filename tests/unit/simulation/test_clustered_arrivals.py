"""Queries of mobile clients: as many, as clustered and as late as asked for."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetserve.simulation.clustered import ClusteredArrivals


@given(st.floats(1, 50), st.integers(1, 20), st.integers(0, 2**32))
def test_queries_arrive_in_order_after_they_were_sent_on_the_grid(rate: float, seconds: int, seed: int) -> None:
    asked = ClusteredArrivals()
    found = asked.draw(rate, seconds, np.random.default_rng(seed))
    assert (np.diff(found.arrival) >= 0).all()
    assert (found.arrival - found.sent >= asked.delay - 1e-12).all()
    assert found.sent / asked.grid == pytest.approx(np.round(found.sent / asked.grid), abs=1e-6)


def test_as_many_queries_come_as_the_rate_says() -> None:
    found = ClusteredArrivals().draw(30.0, 4000, np.random.default_rng(0))
    assert len(found.sent) == pytest.approx(120_000, abs=4 * math.sqrt(120_000))


def test_queries_of_a_second_cluster_around_its_middle_or_do_not() -> None:
    """A normal distribution of deviation 0.1 s has 68 % within it; a uniform one 20 % in as many seconds."""
    for deviation, share in ((0.1, 0.683), (math.inf, 0.2)):
        drawn = ClusteredArrivals(deviation=deviation, grid=1e-6)
        sent = drawn.draw(100.0, 300, np.random.default_rng(1)).sent
        within = np.abs(sent % 1 - 0.5) < 0.1
        assert within.mean() == pytest.approx(share, abs=0.02)


def test_delays_are_pareto_distributed() -> None:
    """The median of shape 2 is the least times the root of 2."""
    found = ClusteredArrivals(grid=1e-6).draw(100.0, 300, np.random.default_rng(2))
    assert np.median(found.arrival - found.sent) == pytest.approx(0.03 * math.sqrt(2), rel=0.02)


def test_without_a_delay_queries_arrive_when_they_are_sent() -> None:
    found = ClusteredArrivals(delay=0.0).draw(20.0, 10, np.random.default_rng(0))
    assert found.arrival.tolist() == found.sent.tolist()


def test_one_seed_brings_the_same_queries() -> None:
    first, again, other = (ClusteredArrivals().draw(20.0, 10, np.random.default_rng(seed)) for seed in (7, 7, 8))
    assert first.arrival.tolist() == again.arrival.tolist()
    assert first.arrival.tolist() != other.arrival.tolist()


@pytest.mark.parametrize(
    ("field", "value"),
    [("deviation", 0.0), ("deviation", math.nan), ("grid", 0.0), ("grid", 2.0), ("delay", -1.0), ("shape", 1.0)],
)
def test_a_parameter_out_of_range_is_named_with_its_value(field: str, value: float) -> None:
    with pytest.raises(ValueError, match=rf"{field} {value}: must be"):
        ClusteredArrivals(**{field: value})


@pytest.mark.parametrize(
    ("rate", "seconds", "named"), [(0.0, 1, "rate 0.0"), (math.inf, 1, "rate inf"), (1.0, 0, "seconds 0")]
)
def test_a_load_out_of_range_is_named_with_its_value(rate: float, seconds: int, named: str) -> None:
    with pytest.raises(ValueError, match=f"{named}: must be above 0"):
        ClusteredArrivals().draw(rate, seconds, np.random.default_rng(0))
