from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest

from hetserve.base.units import QPS, Seconds
from hetserve.demand.observed import Demand, Freshness, RateSample, ShareSample
from hetserve.demand.windows import Trend, attained_below, highest, lowest, trend

NOW = 10_000.0


def demand(*rates: float, until: float = NOW, step: float = 15.0, attained: tuple[float, ...] = ()) -> Demand:
    """Rates a step apart, the last at `until`."""
    at = [until - step * k for k in reversed(range(len(rates)))]
    ended = [until - step * k for k in reversed(range(len(attained)))]
    return Demand(
        Freshness.FRESH,
        now=NOW,
        samples=tuple(RateSample(t, QPS(q)) for t, q in zip(at, rates, strict=True)),
        step=Seconds(step),
        attained=tuple(ShareSample(t, s) for t, s in zip(ended, attained, strict=True)),
    )


def without(full: Demand, *places: int) -> Demand:
    return replace(full, samples=tuple(s for k, s in enumerate(full.samples) if k not in places))


def test_a_window_sees_what_is_in_it_and_what_still_held_at_its_beginning() -> None:
    load = demand(900, 1, 10, 30, 20)

    assert (lowest(load, Seconds(20)), highest(load, Seconds(20))) == (10.0, 30.0)
    assert (lowest(load, Seconds(30)), highest(load, Seconds(30))) == (10.0, 30.0)
    assert lowest(load, Seconds(31)) == 1.0
    assert highest(load, Seconds(60)) == 900.0


def test_a_window_that_reaches_back_further_than_the_samples_is_not_known() -> None:
    load = demand(5, 6, 7, 8, 9)  # 60 s

    assert highest(load, Seconds(75)) == 9.0
    assert highest(load, Seconds(81)) is None


def test_a_window_that_is_covered_but_begins_with_a_long_silence_is_not_known() -> None:
    load = demand(*[5.0] * 17)  # 240 s of 300

    assert highest(load, Seconds(285)) == 5.0
    assert highest(load, Seconds(290)) is None


def test_two_lost_samples_are_no_gap_and_three_are_one() -> None:
    load = demand(*[5.0] * 21)

    assert highest(without(load, 10, 11), Seconds(300)) == 5.0
    assert highest(without(load, 10, 11, 12), Seconds(300)) is None
    assert highest(without(load, 0, 1, 2, 3), Seconds(200)) == 5.0


def test_samples_that_stopped_hold_for_three_steps() -> None:
    assert lowest(demand(*[5.0] * 21, until=NOW - 45), Seconds(30)) == 5.0
    assert lowest(demand(*[5.0] * 21, until=NOW - 46), Seconds(30)) is None


def test_a_lower_bound_that_falls_to_nothing_is_not_yet_small() -> None:
    """The rate of a query over a minute, whose target died 45 s ago."""
    dying = replace(demand(*[100.0] * 10, 75, 50, 25), lower_bound=True)

    assert highest(dying, Seconds(0)) == 100.0
    assert lowest(dying, Seconds(0)) == 25.0


@pytest.mark.parametrize("freshness", [Freshness.STALE, Freshness.MISSING, Freshness.INVALID])
def test_of_what_is_not_fresh_no_window_is_known(freshness: Freshness) -> None:
    load = replace(demand(*range(1, 22), attained=(0.1,) * 21), freshness=freshness, why="out of order")

    assert lowest(load, Seconds(30)) is None
    assert highest(load, Seconds(30)) is None
    assert trend(load, Seconds(300)) is None
    assert not attained_below(load, 0.99, Seconds(30))


def test_zero_is_a_rate_and_nothing_is_none() -> None:
    assert highest(demand(*[0.0] * 21), Seconds(300)) == 0.0
    assert highest(demand(), Seconds(300)) is None


def test_samples_from_after_now_do_not_count() -> None:
    assert highest(demand(1, 1, 1, 99, until=NOW + 10), Seconds(30)) == 1.0


def test_a_window_of_no_length_is_the_newest_sample() -> None:
    assert (lowest(demand(1, 2), Seconds(0)), highest(demand(1, 2), Seconds(0))) == (2.0, 2.0)
    assert highest(demand(1, 2, until=NOW - 46), Seconds(0)) is None


@pytest.mark.parametrize("window", [-1.0, math.nan])
def test_a_window_is_not_negative(window: float) -> None:
    with pytest.raises(ValueError, match=rf"window {window}: must be a number of seconds of at least 0"):
        lowest(demand(1, 2), Seconds(window))


def test_attainment_is_below_only_if_it_is_throughout_the_window() -> None:
    assert attained_below(demand(1, attained=(1.0, 0.98, 0.9, 0.97)), 0.99, Seconds(30))
    assert not attained_below(demand(1, attained=(1.0, 0.98, 0.99, 0.97)), 0.99, Seconds(30))
    assert not attained_below(demand(1, attained=(0.9,)), 0.99, Seconds(30))
    assert not attained_below(demand(1), 0.99, Seconds(30))


def test_a_straight_line_is_a_trend_without_error() -> None:
    line = trend(demand(*(100 + 3 * k for k in range(13))), Seconds(180))

    assert line is not None
    assert line.slope == pytest.approx(0.2)
    assert line.error == pytest.approx(0.0, abs=1e-9)
    assert line.at_least() == pytest.approx(0.2)


def test_a_trend_needs_four_samples() -> None:
    assert trend(demand(1, 2, 3), Seconds(30)) is None
    assert trend(demand(1, 2, 3), Seconds(40)) is None


def test_rates_that_share_all_of_their_windows_tell_nothing_of_their_noise() -> None:
    alike = replace(demand(1, 2, 4, 8, 16), window=Seconds(1e15))
    line = trend(alike, Seconds(60))

    assert line is not None
    assert line.error == math.inf
    assert line.at_least() == 0.0


def test_a_trend_less_its_doubt_never_turns_round() -> None:
    assert Trend(-3.0, 1.0).at_least(2.0) == -1.0
    assert Trend(-3.0, 1.0).at_least(3.0) == 0.0
    assert Trend(0.0, 0.0).at_least() == 0.0


def test_noise_alone_is_seldom_a_trend() -> None:
    """Counts of 15 s with 10 % noise, seen through windows of 60 s, so that neighbouring rates are alike."""
    draw = random.Random(7)  # noqa: S311  (a seeded choice, no secret)
    seen = 0
    for _ in range(400):
        counts = [100 * (1 + draw.gauss(0, 0.1)) for _ in range(24)]
        rates = [sum(counts[k : k + 4]) / 4 for k in range(21)]
        line = trend(demand(*rates), Seconds(300))
        assert line is not None
        seen += line.at_least(2.0) != 0.0
    assert seen <= 48, f"{seen} of 400 are taken for a trend; of honest errors 8 % would be with so few samples"
