"""Laws of what was so throughout a window."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from hetserve.base.units import QPS, Seconds
from hetserve.demand.observed import Demand, Freshness, RateSample, ShareSample
from hetserve.demand.windows import attained_below, highest, lowest, surely_lower, trend

STEP = Seconds(15.0)
rates = st.floats(0, 1e6, allow_subnormal=False).map(QPS)
windows = st.sampled_from([0.0, 15.0, 30.0, 60.0, 299.5, 300.0, 600.0]).map(Seconds)


@st.composite
def demands(draw: st.DrawFn) -> Demand:
    """Samples at odd moments, close together and far apart, with loss and delay."""
    gaps = draw(st.lists(st.sampled_from([0.5, 14.0, 15.0, 16.0, 30.0, 45.0, 46.0, 200.0]), max_size=40))
    now, at, samples = 50_000.0, 50_000.0, []
    for gap in gaps:
        at -= gap
        samples.append(RateSample(at, draw(rates)))
    shares = tuple(ShareSample(s.at, draw(st.floats(0, 1))) for s in reversed(samples))
    return Demand(Freshness.FRESH, now=now, samples=tuple(reversed(samples)), step=STEP, attained=shares)


def shifted(demand: Demand, by: float) -> Demand:
    return replace(
        demand,
        now=demand.now + by,
        samples=tuple(RateSample(s.at + by, s.qps) for s in demand.samples),
        attained=tuple(ShareSample(s.at + by, s.share) for s in demand.attained),
    )


@given(demands(), windows)
def test_the_lowest_and_the_highest_are_measured_rates_and_known_together(demand: Demand, window: Seconds) -> None:
    low, high = lowest(demand, window), highest(demand, window)

    assert (low is None) == (high is None)
    if low is not None and high is not None:
        assert low <= high
        assert {low, high} <= {sample.qps for sample in demand.samples}


@given(demands(), windows)
def test_a_lower_bound_is_never_taken_for_smaller(demand: Demand, window: Seconds) -> None:
    bound = replace(demand, lower_bound=True)
    high, least = highest(demand, window), highest(bound, window)

    assert least is None or high is None or least >= high
    assert least == highest(demand, Seconds(max(window, 120.0)))


@given(rates, windows)
def test_what_is_surely_lower_differs_by_the_chance_of_two_counts(qps: QPS, window: Seconds) -> None:
    least = surely_lower(qps, window)

    assert 0 <= least <= qps
    if least > 0 and window > 0:
        deviation = math.sqrt((qps + least) * window)
        assert (qps - least) * window == pytest.approx(2.3263 * deviation, rel=1e-3, abs=1e-2)


@given(rates, windows, windows)
def test_a_longer_window_leaves_less_to_chance(qps: QPS, one: Seconds, other: Seconds) -> None:
    """A window of 0 s leaves nothing to it, as nobody knows the window."""
    short, long = sorted((one, other))

    assert short <= 0 or surely_lower(qps, short) <= surely_lower(qps, long) * (1 + 1e-9)
    assert surely_lower(qps, Seconds(0.0)) == qps


@pytest.mark.parametrize(("qps", "window"), [(2.0, 60.0), (24.0, 5.0), (24.0, 60.0)])
def test_of_two_counts_of_one_rate_one_in_a_hundred_is_surely_lower(qps: float, window: float) -> None:
    counts = np.random.default_rng(1).poisson(qps * window, (2, 100_000)) / window
    bound = {rate: surely_lower(QPS(rate), Seconds(window)) for rate in np.unique(counts[0])}

    lower = np.mean([other < bound[rate] for rate, other in counts.T])
    assert lower == pytest.approx(0.01, abs=0.003)


@given(demands(), windows, windows)
def test_a_longer_window_never_narrows_the_range(demand: Demand, one: Seconds, other: Seconds) -> None:
    short, long = sorted((one, other))
    low, high = lowest(demand, long), highest(demand, long)
    nearer_low, nearer_high = lowest(demand, short), highest(demand, short)

    if low is not None and high is not None and nearer_low is not None and nearer_high is not None:
        assert low <= nearer_low
        assert nearer_high <= high


@given(demands(), windows)
def test_samples_before_the_window_but_the_last_one_change_nothing(demand: Demand, window: Seconds) -> None:
    begin = demand.now - window
    before = [s for s in demand.samples if s.at <= begin]
    pruned = replace(demand, samples=tuple(before[-1:]) + tuple(s for s in demand.samples if s.at > begin))

    assert lowest(pruned, window) == lowest(demand, window)
    assert highest(pruned, window) == highest(demand, window)


@given(demands(), windows, st.integers(-40_000, 1_000_000))
def test_only_differences_of_time_count(demand: Demand, window: Seconds, by: int) -> None:
    moved = shifted(demand, float(by))

    assert lowest(moved, window) == lowest(demand, window)
    assert highest(moved, window) == highest(demand, window)
    assert attained_below(moved, 0.5, window) == attained_below(demand, 0.5, window)


@given(demands(), windows, st.integers(0, 39))
def test_a_lost_sample_makes_nothing_known_that_was_not(demand: Demand, window: Seconds, place: int) -> None:
    gone = place % max(len(demand.samples), 1)
    less = replace(demand, samples=demand.samples[:gone] + demand.samples[gone + 1 :])

    if lowest(demand, window) is None:
        assert lowest(less, window) is None


@given(demands(), windows)
def test_time_without_samples_makes_nothing_known_that_was_not(demand: Demand, window: Seconds) -> None:
    assume(demand.samples)
    later = replace(demand, now=demand.samples[-1].at + 3 * STEP + 1)

    assert lowest(later, window) is None
    assert not attained_below(later, 1.1, window)


@given(demands(), windows, st.floats(0.1, 1000))
def test_a_trend_scales_with_the_load(demand: Demand, window: Seconds, factor: float) -> None:
    scaled = replace(demand, samples=tuple(RateSample(s.at, QPS(s.qps * factor)) for s in demand.samples))
    one, other = trend(demand, window), trend(scaled, window)

    assert (one is None) == (other is None)
    if one is not None and other is not None:
        size = max(1.0, *(s.qps for s in demand.samples))
        assert abs(other.slope - factor * one.slope) <= 1e-6 * factor * size
        assert one.error >= 0


@given(demands(), windows)
def test_a_trend_forth_is_the_opposite_of_the_trend_back(demand: Demand, window: Seconds) -> None:
    size = max([1.0, *(s.qps for s in demand.samples)])
    mirrored = replace(demand, samples=tuple(RateSample(s.at, QPS(size - s.qps)) for s in demand.samples))
    one, other = trend(demand, window), trend(mirrored, window)

    if one is not None and other is not None:
        assert abs(one.slope + other.slope) <= 1e-6 * size
