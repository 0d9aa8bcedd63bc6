"""Facts that are meant to mislead the scaling policy."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from hetserve.base.units import QPS, Seconds
from hetserve.demand.observed import Demand, Freshness, RateSample
from hetserve.scaling import Action, Change, Facts, InForce, Pending, ScalingReason, ScalingRules, Unanswered, decide
from hetserve.scaling.plans.answers import Answers
from hetserve.scaling.plans.counts import cost_of, covers
from testing.planning import hetsev_types
from testing.scaling import NOW, facts, measured, scaled_problem, steady


def test_samples_from_the_future_and_out_of_the_window_do_not_shrink_anything() -> None:
    future = replace(steady(1.0), now=NOW - 3600)
    past = replace(steady(1.0), now=NOW + 3600)

    for demand in (future, past):
        assert not decide(facts(demand, {"t4": 4}), Answers()).changes


def test_a_clock_that_jumps_back_does_not_lift_or_lengthen_step_policies_for_ever() -> None:
    from testing.scaling import at_most, limited

    rules = ScalingRules(up=limited(30.0, at_most(1)))
    later = Change(NOW + 600, Action.SCALE_UP, ScalingReason.LOAD_ABOVE_CAPACITY, (("t4", 1),), (("t4", 2),))

    soon = replace(later, at=NOW + 30)

    for change, added in ((later, 1), (soon, 0)):
        found = decide(facts(steady(200.0), {"t4": 2}, rules=rules, changes=(change,)), Answers())
        assert dict(found.counts or ())["t4"] == 2 + added


@pytest.mark.parametrize("rate", [1e-9, 1e9, 5e-324])
def test_rates_at_the_edge_of_numbers_are_decided_upon(rate: float) -> None:
    v100, t4 = hetsev_types()
    small = scaled_problem((replace(v100, max_instances=5), replace(t4, max_instances=5)))

    found = decide(facts(steady(rate), {"t4": 2}, problem=small), Answers(quick=True))

    assert found.words
    assert all(0 <= n <= 5 for _, n in found.counts or ())


def test_a_burst_shorter_than_the_window_adds_nothing_whatever_its_height() -> None:
    for height in (1e2, 1e4, 1e6):
        burst = measured([20.0] * 38 + [height, height, 20.0])
        assert decide(facts(burst, {"t4": 2}), Answers()).action is Action.HOLD


def test_one_sample_of_zero_between_high_ones_removes_nothing() -> None:
    blink = measured([60.0] * 20 + [0.0] + [60.0] * 20)

    assert decide(facts(blink, {"t4": 3}), Answers()).action is Action.HOLD


def test_all_types_scarce_at_once_leaves_what_runs() -> None:
    waits = facts(
        steady(60.0),
        {"v100": 1, "t4": 3},
        60.0,
        bound={"v100": 0, "t4": 1},
        waiting={"v100": Seconds(1e6), "t4": Seconds(1e6)},
    )
    found = decide(waits, Answers(quick=True))

    assert dict(found.counts or ())["t4"] >= 1
    assert found.scarce in {"v100", "t4", None}


def test_a_plan_in_force_of_types_that_are_all_gone_gets_a_new_one() -> None:
    ghost = replace(facts(steady(40.0), {"t4": 2}), in_force=InForce((("k80", 9),), QPS(40.0)))

    found = decide(ghost, Answers())

    assert found.changes
    assert dict(found.counts or ())["t4"] > 0


def test_a_budget_below_one_instance_ends_all_and_says_both_numbers() -> None:
    cut = scaled_problem(budget="0.01")

    found = decide(facts(steady(40.0), {"t4": 2}, problem=cut), Answers(quick=True))

    assert found.action is Action.SHRINK
    assert cost_of(found.counts or (), cut) == 0
    assert "0.01 $/h" in found.words


def test_planners_that_answer_one_question_and_then_no_more_change_nothing_by_halves() -> None:
    known, left = Answers(), 1

    def fading(work: object) -> object:
        nonlocal left
        left -= 1
        return known(work) if left >= 0 else Pending()  # type: ignore[arg-type]

    given = facts(steady(200.0), {"t4": 2}, problem=replace(scaled_problem(), planner=None))
    found = decide(given, fading)  # type: ignore[arg-type]

    assert found.pending
    assert found.counts == given.in_force.counts if given.in_force else None


def test_unanswered_capacity_shrinks_nothing() -> None:
    idle = facts(steady(0.0), {"t4": 9}, problem=replace(scaled_problem(), planner=None))

    assert not decide(idle, lambda _: Unanswered("killed")).changes


def test_types_renamed_in_order_get_the_same_counts() -> None:
    def renamed(given: Facts) -> Facts:
        types = tuple(replace(o, name=f"{'ab'[i]}-{o.name}") for i, o in enumerate(given.problem.types))
        counts = tuple((o.name, n) for o, (_, n) in zip(types, given.in_force.counts, strict=True))  # type: ignore[union-attr]
        return replace(
            given,
            problem=replace(given.problem, types=types),
            in_force=InForce(counts),
            ready=dict(counts),
            bound=dict(counts),
        )

    for load in (1.0, 40.0, 90.0, 300.0):
        given = facts(steady(load), {"v100": 1, "t4": 2})
        one, other = decide(given, Answers()), decide(renamed(given), Answers())
        assert [n for _, n in one.counts or ()] == [n for _, n in other.counts or ()]


def test_a_demand_that_says_fresh_with_invalid_numbers_is_not_acted_on() -> None:
    """Freshness is decided in one place, before; numbers that slip through must not shrink anything."""
    broken = Demand(
        Freshness.FRESH,
        now=NOW,
        samples=tuple(RateSample(NOW - 600 + 15 * i, QPS(math.nan)) for i in range(41)),
        step=Seconds(15.0),
    )
    held = {"t4": 4}
    found = decide(facts(broken, held), Answers(quick=True))

    assert covers(found.counts or (), (("v100", 0), ("t4", 4)))
