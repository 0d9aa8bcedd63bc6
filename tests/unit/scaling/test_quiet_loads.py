"""Loads that ask for no look while planners work out what a decision waits for: only the answer changes it."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from hetserve.base.units import QPS
from hetserve.demand.observed import Demand, Freshness
from hetserve.planning.reach import Capacity, PlannerJob
from hetserve.scaling import Action, Answer, Facts, Pending, ScalingReason, decide
from hetserve.scaling.plans.answers import Answers
from testing.scaling import facts, measured, scaled_problem, steady

HELD = 75.0
"""Queries/s that three T4 hold."""


def service(load: float) -> Facts:
    """Of three T4, whose planner tries what instances hold."""
    return facts(steady(load), {"t4": 3}, problem=scaled_problem(planner="flow"))


def unanswered(_work: PlannerJob) -> Answer:
    return Pending()


def but_fewer(work: PlannerJob) -> Answer:
    """All but what fewer than three instances hold."""
    if work.kind != "Capacity" or work.counts is None:
        return Answers(quick=True)(work)
    instances = sum(n for _, n in work.counts)
    return Pending() if instances < 3 else Capacity(QPS(instances * HELD / 3), tried=True)


def test_until_it_is_known_what_the_instances_hold_no_load_asks_for_a_look() -> None:
    found = decide(service(60), unanswered)
    assert found.pending
    assert found.dead_band is not None
    assert found.dead_band.covers(steady(1))
    assert found.dead_band.covers(steady(1000))
    assert not found.dead_band.covers(replace(steady(60), freshness=Freshness.STALE))


def test_until_it_is_known_what_fewer_hold_a_load_that_needs_more_asks_for_a_look() -> None:
    for load in (5.0, 50.0):
        found = decide(service(load), but_fewer)
        assert found.action is Action.HOLD
        assert found.dead_band is not None, load
        assert found.dead_band.covers(steady(1))
        assert found.dead_band.covers(steady(60))
        assert not found.dead_band.covers(steady(HELD))


def test_while_more_instances_are_planned_every_load_asks_for_a_look() -> None:
    def holds_alone(work: PlannerJob) -> Answer:
        return but_fewer(work) if work.kind == "Capacity" else Pending()

    found = decide(service(HELD), holds_alone)
    assert found.growing
    assert found.dead_band is None


def test_a_newest_rate_that_is_not_carried_asks_for_a_look_and_leaves_none_out_until_it_is() -> None:
    def peak(qps: float) -> Demand:
        return measured([55.0] * 40 + [qps])

    calm = decide(service(55), Answers(quick=True))
    assert calm.dead_band is not None
    assert calm.measured.capacity is not None
    held = calm.measured.capacity
    assert calm.dead_band.covers(peak(held))
    assert not calm.dead_band.covers(peak(1.01 * held))
    above = decide(replace(service(55), demand=peak(1.01 * held)), Answers(quick=True))
    assert (above.action, above.reason) == (Action.HOLD, ScalingReason.LOAD_CARRIED)
    assert above.dead_band is None, "nobody would say that the load is carried again"


def test_a_slo_that_is_missed_asks_for_a_look_while_planners_work() -> None:
    quiet = decide(service(50), but_fewer).dead_band
    assert quiet is not None
    assert not quiet.covers(steady(60, attained=[0.5] * 30))


@given(st.lists(st.floats(0.0, 1.5 * HELD), min_size=25, max_size=41), st.floats(1.0, HELD))
def test_quiet_loads_add_nothing_while_it_is_worked_out_what_fewer_hold(later: list[float], now: float) -> None:
    case = service(now)
    quiet, then = decide(case, but_fewer).dead_band, measured(later)
    if quiet is None or not quiet.covers(then):
        return
    found = decide(replace(case, demand=then), but_fewer)
    assert found.action is Action.HOLD
    assert found.reason in (ScalingReason.LOAD_CARRIED, ScalingReason.PLANNING)
    assert not found.growing
