"""When and how instances are added."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Literal

import pytest

from hetserve.base.units import QPS, Seconds
from hetserve.demand.observed import Demand, Freshness
from hetserve.scaling import Action, Change, Direction, Facts, Pause, ScalingReason, ScalingRules, decide
from hetserve.scaling.actions.growth import is_short, late_until
from hetserve.scaling.plans.answers import Answers
from testing.planning import hetsev_types
from testing.scaling import LAUNCH, NOW, at_most, facts, limited, measured, scaled_problem, steady


def decided(given: Facts) -> tuple[Action, ScalingReason, dict[str, int]]:
    found = decide(given, Answers())
    return found.action, found.reason, {name: n for name, n in found.counts or () if n}


def test_a_load_above_the_tolerated_saturation_throughout_its_window_adds_instances() -> None:
    # 2 x T4 hold 50 q/s; 0.8 x 1.1 x 50 = 44.
    assert decided(facts(steady(44.1), {"t4": 2})) == (Action.SCALE_UP, ScalingReason.LOAD_ABOVE_CAPACITY, {"t4": 3})


def test_a_load_within_the_tolerance_adds_none() -> None:
    assert decided(facts(steady(43.9), {"t4": 2})) == (Action.HOLD, ScalingReason.LOAD_CARRIED, {"t4": 2})


def test_one_sample_within_the_capacity_in_the_window_prevents_it() -> None:
    dipped = measured([60.0] * 30 + [40.0, 60.0])

    assert decide(facts(dipped, {"t4": 2}), Answers()).action is Action.HOLD


def test_the_plan_holds_the_load_at_the_wanted_saturation() -> None:
    # 100 q/s at 0.8 need 125 q/s of capacity: five T4, six with the grid's rounding.
    found = decide(facts(steady(100.0), {"t4": 2}), Answers())

    assert dict(found.counts or ())["t4"] == 6
    assert found.load == 100.0


def test_no_type_loses_an_instance_though_a_swap_were_cheaper() -> None:
    cheap = replace(hetsev_types()[0], price=hetsev_types()[1].price)
    problem = scaled_problem((cheap, hetsev_types()[1]))

    found = decide(facts(steady(180.0), {"t4": 8}, problem=problem), Answers())

    assert found.action is Action.SCALE_UP
    assert dict(found.counts or ()) == {"v100": 1, "t4": 8}


def test_instances_that_launch_count_once() -> None:
    launching = facts(steady(65.0), {"t4": 4}, ready={"t4": 2}, bound={"t4": 3})

    assert decide(launching, Answers()).action is Action.HOLD


def test_the_trend_counts_until_new_instances_serve() -> None:
    # +0.2 q/s each second: 12 q/s more in 60 s.
    rising = measured([43.0 - 3.0 * i for i in range(12, 0, -1)] + [43.0])
    without = ScalingRules(look_ahead=False)

    found = decide(facts(rising, {"t4": 2}), Answers())

    assert (found.action, found.reason) == (Action.SCALE_UP, ScalingReason.TREND_ABOVE_CAPACITY)
    assert found.load == pytest.approx(43.0 + 12.0)
    assert decide(facts(rising, {"t4": 2}, rules=without), Answers()).action is Action.HOLD


def test_a_trend_no_more_than_doubles_the_load() -> None:
    steep = measured([0.0] * 20 + [30.0 * i for i in range(1, 14)])
    slow = tuple(replace(option, launch_time=Seconds(3600.0)) for option in hetsev_types())

    found = decide(facts(steep, {"t4": 2}, problem=scaled_problem(slow)), Answers())

    assert found.measured.forecast is not None
    assert found.measured.lowest is not None
    assert found.measured.forecast == 2 * found.measured.lowest


def test_step_policies_bound_what_a_period_adds() -> None:
    rules = ScalingRules(up=limited(30.0, at_most(2)))
    before = (("v100", 0), ("t4", 2))
    earlier = Change(
        NOW - 59, Action.SCALE_UP, ScalingReason.LOAD_ABOVE_CAPACITY, (("t4", 1),), (("t4", 2),), QPS(20.0)
    )

    clipped = decide(facts(steady(200.0), dict(before), rules=rules), Answers())
    rest = decide(facts(steady(200.0), dict(before), rules=rules, changes=(earlier,)), Answers())
    later = replace(earlier, at=NOW - 60)
    fresh = decide(facts(steady(200.0), dict(before), rules=rules, changes=(later,)), Answers())

    assert [dict(found.counts or ())["t4"] for found in (clipped, rest, fresh)] == [4, 3, 4]
    assert clipped.limits[0].reason is ScalingReason.STEP_POLICY


def test_a_first_plan_is_no_step() -> None:
    rules = ScalingRules(up=limited(30.0, at_most(2)))
    made = Change(NOW - 20, Action.FIRST_PLAN, ScalingReason.FIRST_PLAN, (), (("t4", 2),), QPS(20.0))

    found = decide(facts(steady(200.0), {"t4": 2}, rules=rules, changes=(made,)), Answers())

    assert dict(found.counts or ())["t4"] == 4


def test_of_several_policies_the_one_that_allows_most_counts_or_least() -> None:
    both = (at_most(1), at_most(100, percent=True))

    def added(select: Literal["Max", "Min"]) -> int:
        rules = ScalingRules(up=replace(limited(30.0, *both), select=select))
        return dict(decide(facts(steady(400.0), {"t4": 4}, rules=rules), Answers()).counts or ())["t4"]

    assert (added("Max"), added("Min")) == (8, 5)


def test_a_clipped_step_takes_first_what_adds_most_capacity() -> None:
    v100, t4 = hetsev_types()
    scarce = scaled_problem((replace(v100, max_instances=2), replace(t4, max_instances=4)))
    rules = ScalingRules(up=limited(30.0, at_most(1)))

    found = decide(facts(steady(150.0), {"t4": 2}, problem=scarce, rules=rules), Answers())

    assert dict(found.counts or ()) == {"v100": 1, "t4": 2}


def test_the_most_instances_are_kept_and_said() -> None:
    found = decide(facts(steady(200.0), {"t4": 3}, rules=ScalingRules(most=3)), Answers())

    assert found.action is Action.HOLD
    assert found.limits[0].reason is ScalingReason.AT_MAXIMUM
    assert not found.within_reach


def test_a_load_beyond_reach_gets_the_most_and_both_numbers() -> None:
    v100, t4 = hetsev_types()
    small = scaled_problem((replace(v100, max_instances=0), replace(t4, max_instances=6)))

    found = decide(facts(steady(900.0), {"t4": 2}, problem=small), Answers(quick=True))

    assert found.action is Action.SCALE_UP
    assert dict(found.counts or ())["t4"] == 6
    assert not found.within_reach
    assert "1130.0 q/s are to be held" in found.limits[0].words
    assert "the nodes and the types' maxInstances allow" in found.limits[0].words
    assert found.limits[0].reason is ScalingReason.BEYOND_ROOM


@pytest.mark.parametrize("pause", [Pause.SCALE_UP, Pause.ALL])
def test_a_pause_of_scaling_up_holds_and_says_so(pause: Pause) -> None:
    found = decide(facts(steady(200.0), {"t4": 2}, pause=pause), Answers())

    assert found.action is Action.HOLD
    assert found.limits[0].reason is ScalingReason.PAUSED
    assert found.within_reach


def test_a_pause_of_scaling_down_does_not_keep_instances_from_being_added() -> None:
    assert decide(facts(steady(200.0), {"t4": 2}, pause=Pause.SCALE_DOWN), Answers()).action is Action.SCALE_UP


def late(rate: float) -> Demand:
    return steady(rate, attained=[0.9] * 20)


def test_a_missed_slo_adds_a_step_more_than_demand_alone_says() -> None:
    found = decide(facts(late(38.0), {"t4": 2}), Answers())

    assert (found.action, found.reason) == (Action.SCALE_UP, ScalingReason.SLO_MISSED)
    assert dict(found.counts or ())["t4"] == 3


@pytest.mark.parametrize(
    ("ended", "late_queries", "adds"), [(30, 1, False), (30, 3, True), (2400, 35, False), (2400, 37, True)]
)
def test_late_queries_that_chance_explains_add_none(ended: int, late_queries: int, adds: bool) -> None:
    seen = steady(38.0, attained=[1 - late_queries / ended] * 20, ended=float(ended))
    found = decide(facts(seen, {"t4": 2}, problem=scaled_problem(percentile=99.0)), Answers())

    assert (found.action is Action.SCALE_UP) is adds


def test_a_missed_slo_adds_none_while_instances_launch_or_twice_the_load_is_held() -> None:
    recent = Change(NOW - LAUNCH, Action.SCALE_UP, ScalingReason.SLO_MISSED, (("t4", 1),), (("t4", 2),), QPS(38.0))

    assert decide(facts(late(38.0), {"t4": 2}, ready={"t4": 1}), Answers()).action is Action.HOLD
    assert decide(facts(late(38.0), {"t4": 2}, changes=(recent,)), Answers()).action is Action.HOLD
    assert decide(facts(late(38.0), {"t4": 4}), Answers()).action is Action.HOLD


@pytest.mark.parametrize(("ago", "adds"), [(164.0, False), (165.0, True)])
def test_what_was_late_before_a_change_served_is_not_held_against_it(ago: float, adds: bool) -> None:
    """60 s of launch, then 30 s throughout, for which a sample 15 s before them counts too, each of 60 s of queries."""
    counts = (("t4", 1),), (("t4", 2),)
    change = Change(NOW - ago, Action.SCALE_UP, ScalingReason.LOAD_ABOVE_CAPACITY, *counts, QPS(38.0))

    found = decide(facts(late(38.0), {"t4": 2}, changes=(change,)), Answers())

    assert (found.reason is ScalingReason.SLO_MISSED) is adds


@pytest.mark.parametrize(("ago", "adds"), [(104.0, False), (105.0, True)])
def test_an_instance_that_launched_for_longer_or_began_anew_is_given_the_same_time(ago: float, adds: bool) -> None:
    change = Change(NOW - 4000, Action.SCALE_UP, ScalingReason.LOAD_ABOVE_CAPACITY, (("t4", 1),), (("t4", 2),))

    found = decide(facts(late(38.0), {"t4": 2}, changes=(change,), served_since=NOW - ago), Answers())

    assert (found.reason is ScalingReason.SLO_MISSED) is adds


def test_once_it_is_known_since_when_they_serve_no_launch_time_is_waited_for() -> None:
    counts = (("t4", 1),), (("t4", 2),)
    change = Change(NOW - 120, Action.SCALE_UP, ScalingReason.LOAD_ABOVE_CAPACITY, *counts, QPS(38.0))

    found = decide(facts(late(38.0), {"t4": 2}, changes=(change,), served_since=NOW - 110), Answers())

    assert found.reason is ScalingReason.SLO_MISSED


def test_nothing_launches_where_instances_were_removed() -> None:
    counts = (("t4", 3),), (("t4", 2),)
    change = Change(NOW - 120, Action.SCALE_DOWN, ScalingReason.LOAD_FITS_ON_LESS, *counts, QPS(38.0))

    assert decide(facts(late(38.0), {"t4": 2}, changes=(change,)), Answers()).reason is ScalingReason.SLO_MISSED


@pytest.mark.parametrize(("ago", "adds"), [(104.0, False), (105.0, True)])
def test_a_sample_holds_for_three_steps_however_short_the_window_is(ago: float, adds: bool) -> None:
    at_once = ScalingRules(up=Direction(Seconds(0.0)), look_ahead=False)

    found = decide(facts(late(38.0), {"t4": 2}, rules=at_once, served_since=NOW - ago), Answers())

    assert (found.reason is ScalingReason.SLO_MISSED) is adds


def test_until_when_late_queries_do_not_count_is_known() -> None:
    """105 s from an instance that began anew: 60 s of a sample's queries, 30 s throughout, and 15 s for one before."""
    began = facts(late(38.0), {"t4": 2}, served_since=NOW - 50)
    launching = facts(late(38.0), {"t4": 2}, ready={"t4": 1})

    assert late_until(began) == NOW + 55
    assert late_until(launching) == math.inf
    assert late_until(facts(late(38.0), {"t4": 2})) is None, "they count"


def test_without_latencies_nothing_is_missed() -> None:
    assert decide(facts(steady(38.0), {"t4": 2}), Answers()).action is Action.HOLD


def test_where_only_what_is_completed_counts_more_is_planned() -> None:
    arrivals = decide(facts(steady(90.0), {"t4": 2}), Answers())
    completions = decide(facts(steady(90.0, lower_bound=True), {"t4": 2}), Answers())

    assert arrivals.load == 90.0
    assert completions.load == pytest.approx(99.0)


def test_a_highest_load_that_is_not_known_is_not_taken_for_none() -> None:
    """Of a lower bound it is looked for in two windows of the rate, 120 s here; scaling up looks at 30 s."""
    young = steady(90.0, seconds=45.0, lower_bound=True)

    found = decide(facts(young, {"t4": 2}), Answers())

    assert found.measured.highest is None
    assert (found.action, found.reason) == (Action.SCALE_UP, ScalingReason.LOAD_ABOVE_CAPACITY)
    assert found.load == pytest.approx(99.0)
    assert found.counts == decide(facts(steady(90.0, lower_bound=True), {"t4": 2}), Answers()).counts


def test_a_window_of_no_length_acts_on_the_newest_sample() -> None:
    at_once = ScalingRules(up=Direction(Seconds(0.0)), look_ahead=False)

    assert decide(facts(measured([20.0] * 30 + [60.0]), {"t4": 2}, rules=at_once), Answers()).action is Action.SCALE_UP


def test_what_is_too_little_is_known_without_a_planner() -> None:
    holds = QPS(50.0)

    assert is_short(facts(steady(44.1), {"t4": 2}), holds)
    assert not is_short(facts(steady(43.9), {"t4": 2}), holds)
    assert is_short(facts(measured([43.0 - 3.0 * i for i in range(12, 0, -1)] + [43.0]), {"t4": 2}), holds)
    assert is_short(facts(steady(30.0, attained=[0.5] * 20), {"t4": 2}), holds)
    assert is_short(facts(steady(20.0), {"t4": 2}, waiting={"t4": Seconds(LAUNCH + 1)}, bound={"t4": 1}), holds)
    assert not is_short(facts(Demand(Freshness.MISSING), {"t4": 2}), holds)
