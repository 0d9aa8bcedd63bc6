"""What scaling is measured against does what it is said to do."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.scaling.autoscalers import Autoscalers
from benchmarks.scaling.days import days, noise, trace_of
from benchmarks.scaling.rivals import WINDOW, HorizontalPodAutoscaler, clairvoyant_dollars, targets
from benchmarks.scaling.unseen import LAUNCHES, loads

from hetserve.base.units import QPS, Seconds
from hetserve.demand.trace import LoadTrace
from hetserve.scaling import ScalingRules
from hetserve.scaling.plans.answers import Answers
from hetserve.scaling.replay.arrivals import arrivals_of
from hetserve.scaling.replay.fleet import Fleet
from testing.scaling import LAUNCH, scaled_problem, steady

pytestmark = pytest.mark.deep

PROBLEM = scaled_problem()


def wanted(autoscaler: HorizontalPodAutoscaler, load: float, now: float) -> int:
    counts = autoscaler(steady(load), now, Fleet(PROBLEM))
    assert counts is not None
    assert dict(counts)["v100"] == 0
    return dict(counts)["t4"]


def test_an_autoscaler_divides_the_load_by_its_target() -> None:
    assert wanted(HorizontalPodAutoscaler(PROBLEM, "t4", QPS(10.0)), 45.0, 0.0) == 5


def test_it_leaves_what_is_within_its_tolerance() -> None:
    autoscaler = HorizontalPodAutoscaler(PROBLEM, "t4", QPS(10.0))

    assert [wanted(autoscaler, load, 15.0 * i) for i, load in enumerate((50.0, 54.9, 55.1))] == [5, 5, 6]


def test_it_grows_by_four_or_as_many_again_at_once() -> None:
    autoscaler = HorizontalPodAutoscaler(PROBLEM, "t4", QPS(10.0))

    assert [wanted(autoscaler, load, 15.0 * i) for i, load in enumerate((20.0, 900.0, 900.0, 900.0))] == [2, 6, 12, 24]


def test_it_shrinks_to_the_largest_recommendation_of_its_window() -> None:
    autoscaler = HorizontalPodAutoscaler(PROBLEM, "t4", QPS(10.0), window=300.0)
    seen = [wanted(autoscaler, load, at) for load, at in ((80.0, 0.0), (30.0, 150.0), (10.0, 300.0), (10.0, 301.0))]

    assert seen == [8, 8, 8, 3]


def test_targets_are_shares_of_the_rate_of_one_instance() -> None:
    assert targets(PROBLEM, "t4", np.array([0.5, 0.8])) == pytest.approx([12.5, 20.0])


@pytest.fixture(scope="module")
def rivals() -> Autoscalers:
    """Over nine minutes that step up and down; the first two of them are late for anybody."""
    rates = np.repeat([60.0, 110.0, 80.0], 3)
    return Autoscalers(PROBLEM, arrivals_of(trace_of(rates), 1), 2)


@pytest.mark.parametrize("allowed", [0.2, 0.3])
def test_the_best_autoscaler_is_the_cheapest_of_those_that_are_seldom_enough_late(
    rivals: Autoscalers, allowed: float
) -> None:
    best = rivals.cheapest(allowed)

    assert best["late"] <= allowed
    assert best["dollars"] <= rivals.cheapest(allowed * 0.9)["dollars"]


def test_targets_go_up_for_as_long_as_queries_stay_in_time(rivals: Autoscalers) -> None:
    """The rate of one instance without a pause is 25 queries/s: no list ends at 95 % of it."""
    assert rivals.cheapest(0.5)["target"] > 0.95 * 25.0
    assert rivals.cheapest(0.2)["target"] < rivals.cheapest(0.5)["target"]


def test_a_shorter_window_is_taken_where_a_load_falls_for_good() -> None:
    rates = np.repeat([60.0, 10.0], 12)
    assert Autoscalers(PROBLEM, arrivals_of(trace_of(rates), 1), 2).cheapest(0.3)["window"] < WINDOW


@pytest.mark.deep
def test_a_type_that_only_another_window_helps_is_found() -> None:
    """In two dips of seven minutes the default window lets instances go that are missed afterwards."""
    ramp, high, dip = np.linspace(3.0, 60.0, 30), np.full(12, 60.0), np.full(7, 2.0)
    rates = np.concatenate([np.full(2, 2.0), ramp, high[:8], dip, high, dip, high])
    best = Autoscalers(PROBLEM, arrivals_of(trace_of(rates), 1), 2).cheapest(0.03)
    assert (best["type"], best["window"]) == ("t4", 600.0)


def test_where_no_autoscaler_is_seldom_enough_late_there_is_none(rivals: Autoscalers) -> None:
    assert rivals.cheapest(0.1) == {}


def test_loads_that_nothing_was_chosen_by_are_the_same_each_time_and_differ_by_launch_time() -> None:
    seeds = [round(100 + launch) for launch in LAUNCHES]
    for name, rates in loads(seeds[0]).items():
        assert len(rates) == 360, name
        assert rates.min() >= 0, name
        assert np.array_equal(rates, loads(seeds[0])[name])
        assert not np.array_equal(rates, loads(seeds[1])[name])


def test_a_clairvoyant_pays_the_cheapest_plan_of_each_minute_and_its_launches() -> None:
    trace = LoadTrace(tuple(Seconds(60.0 * i) for i in range(60)), (QPS(40.0),) * 60)
    dollars = clairvoyant_dollars(PROBLEM, ScalingRules(), trace, Answers())

    # 40 / 0.8 = 50 q/s, 50.5 on the grid: three T4.
    assert dollars == pytest.approx(3 * 0.072 * (1 + LAUNCH / 3600))


def test_the_days_are_the_same_each_time_and_have_a_rate_each_minute() -> None:
    assert len(days()) == 10
    for name, trace in days().items():
        assert len(trace.rates) == 1440, name
        assert all(rate is not None and 0 <= rate <= 120 for rate in trace.rates), name
        assert trace == days()[name]
    assert all(36.0 <= (rate or 0) <= 44.0 for rate in noise(40.0, 1).rates)
