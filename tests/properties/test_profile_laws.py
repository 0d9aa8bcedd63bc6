"""Laws of latency profiles, spreads and lines."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetserve.base.units import Seconds
from hetserve.profiles import KNOTS, Spread, TableProfile, dense
from hetserve.profiles.fit import least_squares

latencies = st.floats(1e-6, 1e3)
NAMED = (0.0, 0.5, 0.9, 0.95, 0.99, 1.0)


@st.composite
def spreads(draw: st.DrawFn) -> Spread:
    inner = draw(st.sets(st.sampled_from(NAMED)).map(lambda given: given | {0.99}))
    ratios = sorted(draw(st.lists(st.floats(0.01, 20), min_size=len(inner), max_size=len(inner))))
    return Spread.of_quantiles(dict(zip(sorted(inner), ratios, strict=True)))


@st.composite
def tables(draw: st.DrawFn) -> TableProfile:
    batches = sorted(draw(st.sets(st.integers(1, 200), min_size=1, max_size=8)))
    means = [Seconds(draw(latencies)) for _ in batches]
    known = [draw(st.none() | spreads()) for _ in batches]
    return TableProfile(tuple(batches), tuple(means), tuple(known))


@given(spreads(), st.floats(0, 1), st.floats(0, 1))
def test_a_spread_never_falls_and_stays_positive(spread: Spread, a: float, b: float) -> None:
    low, high = sorted((a, b))
    assert 0 < spread.ratio(low) <= spread.ratio(high) * (1 + 1e-12)


@given(spreads())
def test_the_knots_lose_nothing(spread: Spread) -> None:
    again = Spread(KNOTS, spread.on(KNOTS))
    for p in (0.003, 0.2, 0.5, 0.77, 0.9, 0.93, 0.95, 0.985, 0.9995):
        assert again.ratio(p) == pytest.approx(spread.ratio(p))


@given(tables(), st.lists(st.integers(1, 250), min_size=1, max_size=5, unique=True).map(sorted))
def test_dense_arrays_equal_the_profile(profile: TableProfile, batches: list[int]) -> None:
    at = dense((profile,), batches).quantiles(99)[0]
    for latency, batch in zip(at, batches, strict=True):
        expected = profile.quantile(batch, 99)
        assert latency == (math.inf if expected is None else pytest.approx(expected))


@given(tables(), st.integers(1, 200))
def test_a_latency_lies_between_those_measured_around_it(profile: TableProfile, batch: int) -> None:
    mean = profile.mean(batch)
    if mean is not None:
        assert min(profile.means) * (1 - 1e-9) <= mean <= max(profile.means) * (1 + 1e-9)


@given(st.lists(st.tuples(st.integers(1, 1000), latencies), min_size=1, max_size=12))
def test_no_line_predicts_a_negative_latency(points: list[tuple[int, float]]) -> None:
    batches, seconds = [b for b, _ in points], [s for _, s in points]
    line = least_squares(batches, seconds)
    assert line.intercept >= 0
    assert line.slope >= 0
    assert line.at(1) > 0


@given(st.floats(0, 1), st.floats(1e-6, 1), st.lists(st.integers(1, 1000), min_size=2, max_size=9, unique=True))
def test_points_on_a_line_give_that_line(intercept: float, slope: float, batches: list[int]) -> None:
    seconds = [intercept + slope * b for b in batches]
    line = least_squares(batches, seconds)
    for batch in (1, 500, 1000):
        assert line.at(batch) == pytest.approx(intercept + slope * batch, rel=1e-5, abs=1e-7)
