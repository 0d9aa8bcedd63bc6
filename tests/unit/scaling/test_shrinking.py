"""When and how instances are removed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hetserve.base.units import QPS, Seconds
from hetserve.demand.observed import Demand, Freshness
from hetserve.planning.plan import Counts
from hetserve.planning.reach import PlannerJob
from hetserve.scaling import Action, Answer, Change, Facts, Pause, ScalingReason, ScalingRules, decide
from hetserve.scaling.plans.answers import Answers
from hetserve.scaling.policy import turns_in
from testing.planning import hetsev_types
from testing.scaling import NOW, at_most, facts, limited, measured, scaled_problem, steady

DAY = 86_400.0


def test_what_fewer_instances_carry_at_the_wanted_saturation_is_left_to_them() -> None:
    found = decide(facts(steady(19.0), {"t4": 4}), Answers())

    assert (found.action, found.reason) == (Action.SCALE_DOWN, ScalingReason.LOAD_FITS_ON_LESS)
    assert dict(found.counts or ())["t4"] == 1


def test_one_instance_fewer_must_carry_the_largest_load_of_the_window() -> None:
    # One T4 holds 25 q/s, of which 20 are used; 18.2 with the tolerance in hand.
    assert decide(facts(steady(18.1), {"t4": 2}), Answers()).action is Action.SCALE_DOWN
    assert decide(facts(steady(18.2), {"t4": 2}), Answers()).action is Action.HOLD


def test_a_peak_within_the_window_keeps_what_carries_it() -> None:
    peak = measured([5.0] * 20 + [60.0] + [5.0] * 15)
    past = measured([5.0] * 5 + [60.0] + [5.0] * 30)

    assert decide(facts(peak, {"t4": 3}), Answers()).action is Action.HOLD
    assert decide(facts(past, {"t4": 3}), Answers()).action is Action.SCALE_DOWN


def test_the_dearest_go_first_and_no_type_gains() -> None:
    found = decide(facts(steady(60.0), {"v100": 2, "t4": 3}), Answers())

    assert dict(found.counts or ()) == {"v100": 1, "t4": 2} or dict(found.counts or ()) == {"v100": 1, "t4": 1}
    assert found.action is Action.SCALE_DOWN


def test_no_load_shrinks_to_the_least_instances_after_its_window() -> None:
    zero = decide(facts(steady(0.0), {"t4": 4}, rules=ScalingRules(least=2)), Answers(quick=True))
    early = decide(facts(measured([65.0] * 20 + [0.0] * 10), {"t4": 4}), Answers())

    assert (zero.action, zero.reason) == (Action.SCALE_DOWN, ScalingReason.NO_LOAD)
    assert dict(zero.counts or ())["t4"] == 2
    assert early.action is Action.HOLD


@pytest.mark.parametrize("freshness", [Freshness.STALE, Freshness.MISSING, Freshness.INVALID])
def test_nothing_shrinks_on_what_is_not_fresh(freshness: Freshness) -> None:
    old = replace(steady(0.0), freshness=freshness, why="no sample for 5 min")

    found = decide(facts(old, {"t4": 4}), Answers())

    assert (found.action, found.reason) == (Action.HOLD, ScalingReason.METRICS_NOT_FRESH)
    assert "no sample for 5 min" in found.words


def test_nothing_shrinks_before_samples_cover_the_window() -> None:
    found = decide(facts(steady(1.0, seconds=120.0), {"t4": 4}), Answers())

    assert (found.action, found.reason) == (Action.HOLD, ScalingReason.WINDOW_NOT_COVERED)


def test_missing_is_not_zero() -> None:
    gap = measured([1.0] * 10 + [None] * 15 + [1.0] * 10)

    assert decide(facts(gap, {"t4": 4}), Answers()).action is Action.HOLD
    assert decide(facts(Demand(Freshness.FRESH, now=NOW), {"t4": 4}), Answers()).action is Action.HOLD


def test_step_policies_bound_what_a_period_removes_the_dearest_first() -> None:
    rules = ScalingRules(down=limited(300.0, at_most(50, 300.0, percent=True)))

    found = decide(facts(steady(1.0), {"v100": 1, "t4": 4}, rules=rules), Answers())

    assert dict(found.counts or ()) == {"v100": 0, "t4": 2}
    assert found.limits[0].reason is ScalingReason.STEP_POLICY


def test_step_policies_that_are_used_up_hold_and_say_so() -> None:
    rules = ScalingRules(down=limited(300.0, at_most(1, 300.0)))
    before = Change(
        NOW - 100, Action.SCALE_DOWN, ScalingReason.LOAD_FITS_ON_LESS, (("t4", 5),), (("t4", 4),), QPS(60.0)
    )

    found = decide(facts(steady(1.0), {"t4": 4}, rules=rules, changes=(before,)), Answers())

    assert found.action is Action.HOLD
    assert found.limits[0].reason is ScalingReason.STEP_POLICY


@pytest.mark.parametrize("pause", [Pause.SCALE_DOWN, Pause.ALL])
def test_a_pause_of_scaling_down_holds(pause: Pause) -> None:
    found = decide(facts(steady(1.0), {"t4": 4}, pause=pause), Answers())

    assert found.action is Action.HOLD
    assert found.limits[0].reason is ScalingReason.PAUSED


def test_counts_that_were_seen_to_miss_the_slo_are_not_gone_back_to() -> None:
    seen = Change(NOW - 4000, Action.SCALE_UP, ScalingReason.SLO_MISSED, (("t4", 2),), (("t4", 3),), QPS(38.0))

    kept = decide(facts(steady(36.0), {"t4": 3}, changes=(seen,)), Answers())
    less = decide(facts(steady(30.0), {"t4": 3}, changes=(seen,)), Answers())

    assert decide(facts(steady(36.0), {"t4": 3}), Answers()).action is Action.SCALE_DOWN
    assert kept.action is Action.HOLD
    assert less.action is Action.SCALE_DOWN


def test_counts_that_missed_the_slo_are_tried_again_after_a_day() -> None:
    for ago, action in ((DAY - 1, Action.HOLD), (DAY, Action.SCALE_DOWN)):
        seen = Change(NOW - ago, Action.SCALE_UP, ScalingReason.SLO_MISSED, (("t4", 2),), (("t4", 3),), QPS(38.0))
        case = facts(steady(36.0), {"t4": 3}, changes=(seen,))
        assert decide(case, Answers()).action is action
        assert turns_in(case) == (2.0 if ago < DAY else 1.0)


@pytest.mark.parametrize(("window", "tried"), [(60.0, 6.8), (600.0, 7.2), (0.0, 7.2)])
def test_a_rate_that_is_lower_by_chance_does_not_bring_back_what_missed_the_slo(window: float, tried: float) -> None:
    """At 8 queries/s: 7.27 is less by the tolerance, 6.84 by more than the chance of one minute."""
    history = (missed(4000, 1, 8.0),)
    for rate, action in ((tried, Action.SCALE_DOWN), (tried + 0.1, Action.HOLD)):
        case = facts(steady(rate, window=Seconds(window)), {"t4": 2}, changes=history)
        assert decide(case, Answers()).action is action
    assert decide(facts(steady(8.0, window=Seconds(window)), {"t4": 2}), Answers()).action is Action.SCALE_DOWN


def test_what_was_added_to_a_load_of_which_only_completions_are_counted_is_not_taken_for_load() -> None:
    """38 queries/s were planned for at 34.5 measured ones, of which 31.4 are less by the tolerance."""
    history = (missed(4000, 2, 38.0),)
    for rate, action in ((31.3, Action.SCALE_DOWN), (31.5, Action.HOLD)):
        case = facts(steady(rate, lower_bound=True), {"t4": 3}, changes=history)
        assert decide(case, Answers()).action is action
    assert decide(facts(steady(34.5), {"t4": 3}, changes=history), Answers()).action is Action.SCALE_DOWN


def missed(ago: float, before: int, load: float) -> Change:
    """Instances that late queries brought: from so many T4, of 25 queries/s each in simulation, to one more."""
    counts = ((("t4", before),), (("t4", before + 1),))
    return Change(NOW - ago, Action.SCALE_UP, ScalingReason.SLO_MISSED, *counts, QPS(load))


def test_what_holds_no_more_than_counts_that_missed_the_slo_is_not_gone_back_to_either() -> None:
    """Three T4 hold 75 q/s in simulation and missed the SLO at 33: a V100, which holds 50, will not do."""
    case, history = facts(steady(32.0), {"v100": 2}), (missed(4000, 3, 33.0),)

    assert decide(case, Answers()).action is Action.SCALE_DOWN
    assert decide(replace(case, changes=history), Answers()).action is Action.HOLD
    assert decide(replace(case, demand=steady(29.9), changes=history), Answers()).action is Action.SCALE_DOWN
    more = decide(facts(steady(32.0), {"v100": 4}, changes=history), Answers())
    assert dict(more.counts or ())["v100"] == 3, "the planner says one, and what holds more than 75 q/s may be tried"


@pytest.mark.parametrize(
    ("held", "load", "seen"),
    [
        ({"v100": 3}, 10.0, missed(4000, 3, 90.0)),  # at 10 q/s nothing was ever missed
        ({"t4": 5}, 36.0, missed(4000, 2, 38.0)),  # four T4 hold more than two, whatever both hold
        ({"t4": 4}, 36.0, missed(4000, 5, 38.0)),  # three are fewer than five
    ],
)
def test_what_cannot_matter_of_what_missed_the_slo_is_not_asked(
    held: dict[str, int], load: float, seen: Change
) -> None:
    planner = Answers(quick=True)
    asked: list[Counts | None] = []

    def ask(work: PlannerJob) -> Answer:
        asked.append(work.counts)
        return planner(work)

    decide(facts(steady(load), held, problem=scaled_problem(planner="flow"), changes=(seen,)), ask)
    assert tuple(held.items()) in asked
    assert seen.before not in asked


def test_what_late_queries_asked_for_stays_for_the_window_of_scaling_down() -> None:
    for ago, action in ((299.0, Action.HOLD), (300.0, Action.SCALE_DOWN)):
        case = facts(steady(1.0), {"t4": 4}, changes=(missed(ago, 3, 33.0),))
        assert decide(case, Answers()).action is action
        assert turns_in(case) == (2.0 if ago < 300.0 else 1.0)


def test_nothing_shrinks_while_queries_are_late() -> None:
    assert decide(facts(steady(1.0, attained=[0.5] * 20), {"t4": 4}, ready={}), Answers()).action is Action.HOLD


@pytest.mark.parametrize(("ended", "action"), [(None, Action.HOLD), (900.0, Action.HOLD), (30.0, Action.SCALE_DOWN)])
def test_nothing_shrinks_on_a_newest_sample_with_more_late_queries_than_chance_makes(
    ended: float | None, action: Action
) -> None:
    late = steady(1.0, attained=[1.0] * 19 + [0.96], ended=ended)
    assert decide(facts(late, {"t4": 4}), Answers()).action is action


def test_completions_of_few_instances_do_not_say_that_the_rest_is_idle() -> None:
    completed = steady(20.0, lower_bound=True)

    assert decide(facts(completed, {"t4": 4}, ready={"t4": 1}), Answers()).action is Action.HOLD
    assert decide(facts(completed, {"t4": 4}), Answers()).action is Action.SCALE_DOWN


def test_a_rising_load_keeps_what_it_will_need() -> None:
    rising = measured([1.0 + 1.0 * i for i in range(40)])
    slow = tuple(replace(option, launch_time=Seconds(600.0)) for option in hetsev_types())

    found = decide(facts(rising, {"t4": 4}, problem=scaled_problem(slow)), Answers())

    assert found.action is not Action.SCALE_DOWN


def test_an_instance_that_a_type_must_have_stays() -> None:
    v100, t4 = hetsev_types()
    wanted = scaled_problem((replace(v100, min_instances=1), t4))

    found = decide(facts(steady(1.0), {"v100": 1, "t4": 3}, problem=wanted), Answers())

    assert dict(found.counts or ()) == {"v100": 1, "t4": 0}


LEAST = ScalingRules(least=3)


def limits(given: Facts) -> list[ScalingReason]:
    found = decide(given, Answers())
    assert found.action is Action.HOLD
    return [limit.reason for limit in found.limits]


def test_the_minimum_is_said_to_limit_where_fewer_would_do() -> None:
    # Two T4 hold 50 q/s; 36.3 with saturation and the tolerance in hand.
    found = decide(facts(steady(36.0), {"t4": 3}, rules=LEAST), Answers())

    assert found.action is Action.HOLD
    (limit,) = found.limits
    assert limit.reason is ScalingReason.AT_MINIMUM
    assert limit.words == ("at most 36.0 q/s throughout 300 s, which 2xt4 would carry; spec.scaling.minInstances is 3")
    assert limits(facts(steady(0.0), {"t4": 3}, rules=LEAST)) == [ScalingReason.AT_MINIMUM]


def test_the_minimum_limits_nothing_where_the_load_needs_it_or_is_not_known() -> None:
    peak = measured([5.0] * 30 + [60.0] + [5.0] * 10)

    assert limits(facts(steady(37.0), {"t4": 3}, rules=LEAST)) == []
    assert limits(facts(peak, {"t4": 3}, rules=LEAST)) == []
    assert limits(facts(replace(steady(5.0), freshness=Freshness.STALE), {"t4": 3}, rules=LEAST)) == []
    assert limits(facts(steady(5.0, 100.0), {"t4": 3}, rules=LEAST)) == []
    assert limits(facts(steady(0.0), {"t4": 1})) == [], "a minimum of one is nobody's choice"


def test_what_missed_the_slo_is_not_what_the_minimum_keeps_and_a_load_that_fewer_carry_again_is_not_quiet() -> None:
    # Three T4 missed at 50 q/s, so they are gone back to at 50 / 1.1 = 45.5 q/s.
    seen = Change(NOW - 4000, Action.SCALE_UP, ScalingReason.SLO_MISSED, (("t4", 3),), (("t4", 4),), QPS(50.0))
    rules = ScalingRules(least=4, look_ahead=False)
    kept, quiet = facts(steady(48.0), {"t4": 4}, rules=rules, changes=(seen,)), []
    for qps, said in ((48.0, []), (30.0, [ScalingReason.AT_MINIMUM])):
        case = replace(kept, demand=steady(qps))
        assert limits(case) == said
        quiet.append(decide(case, Answers()).dead_band)
    above, below = quiet
    assert above is not None
    assert below is not None
    assert above.covers(steady(46.0))
    assert not above.covers(steady(45.0))
    assert below.covers(steady(45.0))
    assert not below.covers(steady(46.0))


def test_while_queries_are_late_no_load_is_quiet_that_the_minimum_may_limit() -> None:
    doubt = facts(steady(20.0, attained=[0.9] * 20), {"t4": 3}, rules=LEAST)
    assert limits(doubt) == []
    assert decide(doubt, Answers()).dead_band is None


def test_a_trend_that_needs_what_the_minimum_keeps_ends_its_limit() -> None:
    rising = measured([20.0] * 28 + [20.0 + 1.1 * i for i in range(1, 14)])
    case = facts(steady(20.0), {"t4": 3}, rules=LEAST)
    quiet = decide(case, Answers()).dead_band
    assert quiet is not None
    assert limits(replace(case, demand=rising)) == []
    assert not quiet.covers(rising)


def test_a_cheaper_mix_is_taken_at_the_minimum_too() -> None:
    found = decide(facts(steady(5.0), {"v100": 3}, rules=replace(LEAST, replaces=True)), Answers())

    assert (found.action, found.reason) == (Action.REPLACE, ScalingReason.CHEAPER_MIX)


@pytest.mark.parametrize(("qps", "same", "other"), [(20.0, 36.0, 37.0), (40.0, 37.0, 36.0)])
def test_loads_at_which_the_minimum_begins_or_ceases_to_limit_are_not_quiet(
    qps: float, same: float, other: float
) -> None:
    quiet = decide(facts(steady(qps), {"t4": 3}, rules=LEAST), Answers()).dead_band

    assert quiet is not None
    assert quiet.covers(steady(same))
    assert not quiet.covers(steady(other))
