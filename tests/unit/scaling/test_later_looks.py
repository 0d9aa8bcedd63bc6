"""When time alone may change a decision."""

from __future__ import annotations

from hetserve.base.units import QPS, Seconds
from hetserve.scaling import Action, Change, Direction, ScalingReason, ScalingRules, StepLimit
from hetserve.scaling.facts import Facts
from hetserve.scaling.policy import turns_in
from testing.scaling import NOW, facts, steady

STEPS = ScalingRules(up=Direction(Seconds(30.0), (StepLimit("Instances", 1, Seconds(120.0)),)))


def changed(ago: float, scarce: str | None = None) -> tuple[Change, ...]:
    load, after = QPS(60.0), (("t4", 2),)
    return (Change(NOW - ago, Action.SCALE_UP, ScalingReason.LOAD_ABOVE_CAPACITY, (("t4", 1),), after, load, scarce),)


def with_waiting(seconds: float) -> Facts:
    return facts(steady(60.0), waiting={"t4": Seconds(seconds)})


def test_without_history_time_alone_changes_nothing() -> None:
    assert turns_in(facts(steady(60.0))) is None
    assert turns_in(facts(steady(60.0), changes=changed(5.0))) is None


def test_the_period_of_a_step_policy_ends() -> None:
    assert turns_in(facts(steady(60.0), rules=STEPS, changes=changed(20.0))) == 101.0
    assert turns_in(facts(steady(60.0), rules=STEPS, changes=changed(130.0))) is None


def test_a_type_is_scarce_for_three_minutes() -> None:
    assert turns_in(facts(steady(60.0), changes=changed(60.0, "t4"))) == 121.0


def test_an_instance_without_a_place_is_late_after_its_launch_time() -> None:
    launch = next(o.launch_time for o in with_waiting(0.0).problem.types if o.name == "t4")
    assert turns_in(with_waiting(launch - 10.0)) == 11.0
    assert turns_in(with_waiting(launch + 10.0)) is None


def test_a_change_of_the_future_is_not_waited_for() -> None:
    assert turns_in(facts(steady(60.0), rules=STEPS, changes=changed(-1e9))) is None


def test_late_queries_count_once_all_that_is_seen_of_them_came_while_the_instances_served() -> None:
    """60 s of launch, and 105 s that a window of 30 s looks back; later where an instance served later."""
    seen = steady(60.0, attained=[0.9] * 20)

    assert turns_in(facts(seen, {"t4": 2}, changes=changed(100.0))) == 66.0
    assert turns_in(facts(seen, {"t4": 2}, changes=changed(100.0), served_since=NOW - 10)) == 96.0
    assert turns_in(facts(seen, {"t4": 2}, changes=changed(170.0))) is None
    assert turns_in(facts(seen, {"t4": 2})) is None
