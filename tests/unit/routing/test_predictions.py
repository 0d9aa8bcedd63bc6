"""What a router predicts for queries of any size, and how it compares with what it observes."""

from __future__ import annotations

import numpy as np
import pytest

from hetserve.base.units import Seconds
from hetserve.dispatch import make_policy
from hetserve.profiles import LatencyProfile, LinearProfile
from hetserve.routing.predictions import KEPT, LARGEST, ObservedTimes, batch_grid, routed_service
from hetserve.routing.router import QueueLimits, ServiceRouter
from hetserve.serving.services import Service
from hetserve.serving.system import System
from testing.routed_world import a_service

SLO = Seconds(0.35)
MIX = (1, 50, 400)
PROFILES: dict[str, LatencyProfile] = {
    "big": LinearProfile(Seconds(0.01), Seconds(0.0005), 700),
    "small": LinearProfile(Seconds(0.02), Seconds(0.004), 100),
}


def service(expected: dict[str, float] | None = None) -> Service:
    return routed_service("s", PROFILES, SLO, MIX, make_policy("fcfs"), expected=expected or {})


def test_sizes_are_told_apart_to_a_32nd_up_to_the_largest_that_a_type_serves() -> None:
    grid = np.array(batch_grid(PROFILES, MIX))
    assert grid[-1] == 700
    assert {*range(1, 65), *MIX, 100, 700} <= set(grid.tolist())
    assert (np.diff(grid)[64:] <= grid[64:-1] / 32).all()


@pytest.mark.parametrize(("mix", "largest"), [((1, 8), LARGEST), ((1, 5000), 5000)])
def test_a_profile_without_a_limit_is_believed_so_far(mix: tuple[int, ...], largest: int) -> None:
    assert batch_grid({"a": LinearProfile(Seconds(0.1), Seconds(0.1))}, mix)[-1] == largest


@pytest.mark.parametrize("expected", [{}, {"small": 1.25}])
def test_predictions_are_those_by_which_plans_are_judged(expected: dict[str, float]) -> None:
    planned = Service("s", System.of(PROFILES, MIX, SLO), make_policy("fcfs"), expected=expected).predicted
    routed = service(expected).predicted
    at = [routed.size_of(batch) for batch in MIX]
    np.testing.assert_allclose(routed.arrays.mean[:, at], planned.arrays.mean, rtol=1e-12)
    np.testing.assert_allclose(routed.arrays.safe[:, at], planned.arrays.safe, rtol=1e-12)
    np.testing.assert_allclose(routed.arrays.coefficients, planned.arrays.coefficients, rtol=1e-12)
    assert routed.arrays.in_time.tolist() == planned.arrays.in_time.tolist()
    assert routed.base == planned.base


def test_the_last_64_times_of_each_type_and_batch_are_kept() -> None:
    times = ObservedTimes()
    for number in range(3 * KEPT + 5):
        times.add("a", 8, float(number))
        if number < 3:
            times.add("a", 9, 0.5)
    found = {key: list(kept) for key, kept in times.times().items()}
    assert found == {("a", 8): [float(number) for number in range(2 * KEPT + 5, 3 * KEPT + 5)], ("a", 9): [0.5] * 3}


def test_the_ratio_is_the_median_of_observed_over_predicted_of_what_is_known() -> None:
    times = ObservedTimes()
    for seconds in (0.4, 0.8, 99.0):
        times.add("a", 5, seconds)
    times.add("a", 6, 1e6)
    times.add("z", 5, 1e6)
    profile = LinearProfile(Seconds(0.1), Seconds(0.06), 5)
    assert times.ratios({"a": profile, "b": profile}) == {"a": pytest.approx(2.0)}


def test_a_router_observes_answers_that_tell_of_the_speed_also_those_that_nobody_awaits() -> None:
    router = ServiceRouter(a_service())
    router.joined(0, "a", 0.0)
    router.arrived(1, 4, 0.0)
    router.answered(1, 0.5)
    router.arrived(2, 4, 1.0)
    router.answered(2, 1.001, is_typical=False)
    router.arrived(3, 4, 2.0)
    router.gone(3, 2.1)
    router.answered(3, 2.75)
    assert {key: list(kept) for key, kept in router.observed.times().items()} == {("a", 5): [0.5, 0.75]}


def test_what_is_served_while_profiles_change_is_observed_at_the_size_that_is_known_then() -> None:
    router = ServiceRouter(service())
    router.joined(0, "big", 0.0)
    router.arrived(1, 60, 0.0)
    router.revise(routed_service("s", PROFILES, SLO, (1,), make_policy("fcfs"), expected={}), QueueLimits(), 0.1)
    router.answered(1, 0.5)
    smaller = {"big": LinearProfile(Seconds(0.1), Seconds(0.1), 32)}
    router.arrived(2, 60, 1.0)
    router.revise(routed_service("s", smaller, SLO, (1,), make_policy("fcfs"), expected={}), QueueLimits(), 1.1)
    router.answered(2, 1.5)
    assert list(router.observed.times()) == [("big", 60), ("big", 32)]
