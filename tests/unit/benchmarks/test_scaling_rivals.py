"""What scaling is measured against does what it is said to do."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.scaling.autoscalers import Autoscalers
from benchmarks.scaling.days import trace_of
from benchmarks.scaling.rivals import HorizontalPodAutoscaler, clairvoyant_dollars

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


def test_it_grows_by_four_or_as_many_again_at_once() -> None:
    autoscaler = HorizontalPodAutoscaler(PROBLEM, "t4", QPS(10.0))

    assert [wanted(autoscaler, load, 15.0 * i) for i, load in enumerate((20.0, 900.0, 900.0, 900.0))] == [2, 6, 12, 24]


def test_it_shrinks_to_the_largest_recommendation_of_its_window() -> None:
    autoscaler = HorizontalPodAutoscaler(PROBLEM, "t4", QPS(10.0), window=300.0)
    seen = [wanted(autoscaler, load, at) for load, at in ((80.0, 0.0), (30.0, 150.0), (10.0, 300.0), (10.0, 301.0))]

    assert seen == [8, 8, 8, 3]


@pytest.fixture(scope="module")
def rivals() -> Autoscalers:
    """Over nine minutes that step up and down; the first two of them are late for anybody."""
    rates = np.repeat([60.0, 110.0, 80.0], 3)
    return Autoscalers(PROBLEM, arrivals_of(trace_of(rates), 1), 2)


def test_a_clairvoyant_pays_the_cheapest_plan_of_each_minute_and_its_launches() -> None:
    trace = LoadTrace(tuple(Seconds(60.0 * i) for i in range(60)), (QPS(40.0),) * 60)
    dollars = clairvoyant_dollars(PROBLEM, ScalingRules(), trace, Answers())

    # 40 / 0.8 = 50 q/s, 50.5 on the grid: three T4.
    assert dollars == pytest.approx(3 * 0.072 * (1 + LAUNCH / 3600))
