"""Observations made to mislead the latency learner."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from hetserve.profiles import LearnedProfile, Learner


def learnt(samples: Iterable[tuple[int, float]]) -> LearnedProfile:
    learner = Learner()
    for batch, seconds in samples:
        learner = learner.observe(batch, seconds)
    profile = learner.profile()
    assert profile is not None
    return profile


STEADY = [(batch, 0.010 + 0.001 * batch) for batch in range(10, 210, 10) for _ in range(4)]


@pytest.mark.parametrize("latency", [530.0, 1e-6])
def test_a_cold_start_at_each_batch_moves_nothing(latency: float) -> None:
    profile = learnt([*STEADY, *((batch, latency) for batch in range(10, 210, 10))])
    for batch in (10, 100, 200):
        assert profile.mean(batch) == pytest.approx(0.010 + 0.001 * batch), (
            "one cold start makes a healthy type look unable to keep the SLO: queries would avoid it"
        )
    assert profile.quantile(100, 99) == pytest.approx(0.110, rel=0.01)


def test_a_batch_whose_first_three_were_wild_is_not_believed() -> None:
    profile = learnt([*STEADY, *[(205, 60.0)] * 3])
    assert profile.mean(205) == pytest.approx(0.215), "three stalls at a rare batch would banish it for good"


def test_a_third_of_the_batches_wild_does_not_tilt_the_line() -> None:
    profile = learnt((batch, 5.0 if batch % 40 == 0 else 0.01 + 0.001 * batch) for batch in range(10, 210, 10))
    assert profile.mean(300) == pytest.approx(0.310, rel=1e-6), "a tilted line sends queries to the wrong type"


def test_one_stall_at_the_far_end_does_not_turn_the_line() -> None:
    profile = learnt([(batch, 0.010 + 0.001 * batch) for batch in range(10, 90, 10)] + [(1000, 400.0)])
    assert profile.mean(500) == pytest.approx(0.510, rel=1e-6), "one stalled large query would banish all large ones"


def test_a_quarter_of_the_batches_stalled_at_the_far_end_does_not_turn_the_line() -> None:
    samples = [(batch, (0.048 + 1.3e-5 * batch) * (4.5 if batch > 720 else 1.0)) for batch in range(30, 990, 30)]
    assert learnt(samples).line.at(300) == pytest.approx(0.0519, rel=0.02), (
        "a start by least squares never comes back from such a line: small queries would look free"
    )


def test_latencies_that_fall_with_the_batch_give_no_negative_prediction() -> None:
    profile = learnt((batch, 0.1 / batch) for batch in (1, 2, 4, 8))
    predicted = [profile.mean(batch) for batch in (1, 8, 10_000)]
    assert all(latency is not None and latency > 0 for latency in predicted), predicted


def test_equal_latencies_have_no_spread_and_no_division_by_it() -> None:
    profile = learnt([(5, 0.02)] * 100)
    assert profile.quantile(5, 99) == pytest.approx(0.02)


def test_jitter_on_steady_hardware_is_not_taken_for_outliers() -> None:
    samples = [(b, 0.1 * (1.03 if i % 10 == 9 else 1.0)) for b in range(10, 210, 10) for i in range(20)]
    assert learnt(samples).mean(50) == pytest.approx(0.1003, rel=1e-6), "a mean without its slow tenth is too short"
