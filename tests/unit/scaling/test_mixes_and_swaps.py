"""Swaps that pay, and mixes that have moved."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hetserve.base.units import QPS, Seconds
from hetserve.demand import BatchMix
from hetserve.demand.measured_mix import distance
from hetserve.demand.observed import Demand, Freshness
from hetserve.scaling import Action, Change, Pause, ScalingReason, ScalingRules, decide
from hetserve.scaling.actions.replacement import swap
from hetserve.scaling.mix import coarse
from hetserve.scaling.plans.answers import Answers
from testing.planning import line, option, problem
from testing.scaling import NOW, facts, scaled_problem, steady

SWAPS = ScalingRules(replaces=True)


def test_a_dear_mix_is_left_alone_unless_swaps_are_wanted() -> None:
    held = {"v100": 2}

    assert decide(facts(steady(60.0), held), Answers()).action is Action.HOLD
    found = decide(facts(steady(60.0), held, rules=SWAPS), Answers())
    assert (found.action, found.reason) == (Action.REPLACE, ScalingReason.CHEAPER_MIX)
    assert dict(found.counts or ()) == {"v100": 0, "t4": 4}


def test_a_swap_costs_its_launches_and_the_old_instances_until_the_new_ones_serve() -> None:
    made = swap((("v100", 2), ("t4", 0)), (("v100", 0), ("t4", 4)), scaled_problem())

    assert made.launch == 4 * 72_000 * 60 // 3600
    assert made.overlap == 2 * 573_000 * 60 // 3600
    assert made.saving == 2 * 573_000 - 4 * 72_000


def test_a_swap_that_does_not_pay_within_the_horizon_is_not_made() -> None:
    soon = replace(SWAPS, payback=Seconds(60.0))

    assert decide(facts(steady(60.0), {"v100": 2}, rules=soon), Answers()).action is Action.HOLD


def test_no_swap_while_instances_launch_or_under_any_pause() -> None:
    held = {"v100": 2}

    assert decide(facts(steady(60.0), held, rules=SWAPS, ready={"v100": 1}), Answers()).action is Action.HOLD
    for pause in (Pause.ALL, Pause.SCALE_UP, Pause.SCALE_DOWN):
        assert decide(facts(steady(60.0), held, rules=SWAPS, pause=pause), Answers()).action is Action.HOLD


def test_no_swap_while_queries_are_late_nor_soon_after_they_brought_instances() -> None:
    held = {"v100": 2}
    late = steady(60.0, attained=[0.5] * 3)
    brought = Change(NOW - 100, Action.SCALE_UP, ScalingReason.SLO_MISSED, (("v100", 1),), (("v100", 2),), QPS(60.0))

    assert decide(facts(late, held, rules=SWAPS, ready={}), Answers()).action is not Action.REPLACE
    assert decide(facts(steady(60.0), held, rules=SWAPS, changes=(brought,)), Answers()).action is Action.HOLD
    past = replace(brought, at=NOW - 400)
    assert decide(facts(steady(60.0), held, rules=SWAPS, changes=(past,)), Answers()).action is Action.REPLACE


def test_after_a_swap_there_is_no_other() -> None:
    found = decide(facts(steady(60.0), {"v100": 2}, rules=SWAPS), Answers())

    assert decide(facts(steady(60.0), dict(found.counts or ()), rules=SWAPS), Answers()).action is Action.HOLD


def test_mixes_differ_by_the_shares_up_to_a_size() -> None:
    one = BatchMix.of([(1, 0.5), (10, 0.5)])

    assert distance(one, one) == 0
    assert distance(one, BatchMix.of([(1, 0.4), (10, 0.6)])) == pytest.approx(0.1)


def test_digits_of_shares_make_no_new_question_and_rare_sizes_stay() -> None:
    one, other = (BatchMix.of([(1, 0.5 + d), (8, 0.495 - d), (100, 0.005)]) for d in (0.0, 0.003))

    assert coarse(one) == coarse(other)
    assert coarse(one).batches == (1, 8, 100)


SMALL, LARGE = (BatchMix.of([(1, a), (100, 1 - a)]) for a in (0.95, 0.3))
TYPES = (option("big", "0.5", line(5, 0.5)), option("small", "0.1", line(5, 2.0, 50)))


def seen(mix: BatchMix, freshness: Freshness = Freshness.FRESH) -> Demand:
    return Demand(freshness, now=NOW, mix=mix)


def test_a_mix_that_has_moved_gets_a_plan_that_holds_more_under_it() -> None:
    given = problem(TYPES, mix=SMALL, budget="2", slo_ms=200)
    planned = Answers()
    held = {"big": 1, "small": 15}
    first = decide(facts(seen(LARGE), held, problem=given), planned)

    assert (first.action, first.reason) == (Action.REPLACE, ScalingReason.BETTER_MIX)
    assert dict(first.counts or ())["big"] > 1

    after = replace(given, mix=coarse(LARGE))
    again = decide(facts(seen(LARGE), dict(first.counts or ()), problem=after), planned)
    assert again.action is Action.HOLD


@pytest.mark.parametrize("freshness", [Freshness.STALE, Freshness.MISSING, Freshness.INVALID])
def test_a_mix_that_is_not_fresh_moves_nothing(freshness: Freshness) -> None:
    given = problem(TYPES, mix=SMALL, budget="2", slo_ms=200)

    held = facts(seen(LARGE, freshness), {"big": 1, "small": 15}, problem=given)
    assert decide(held, Answers()).action is Action.HOLD
