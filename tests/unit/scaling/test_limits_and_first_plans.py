"""First plans, changed limits, budgets and types without room."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hetserve.api.service.scaling import ScalingSpec
from hetserve.base.units import QPS, Seconds
from hetserve.demand.observed import Demand, Freshness
from hetserve.planning.problem import Pool, ResourceAmounts
from hetserve.scaling import (
    Action,
    Change,
    Direction,
    InForce,
    Pause,
    Pending,
    ScalingReason,
    ScalingRules,
    StepLimit,
    Unanswered,
    decide,
    scaling_rules,
)
from hetserve.scaling.plans.answers import Answers
from testing.planning import hetsev_types
from testing.scaling import NOW, facts, scaled_problem, steady

NOTHING = Demand(Freshness.MISSING, "never measured")


def test_the_first_plan_is_for_the_highest_load_measured() -> None:
    found = decide(facts(steady(60.0)), Answers())

    assert (found.action, found.load, dict(found.counts or ())["t4"]) == (Action.FIRST_PLAN, 60.0, 4)


def test_until_something_is_measured_it_is_for_the_expected_load() -> None:
    found = decide(facts(NOTHING, expected=QPS(60.0)), Answers())

    assert (found.action, found.load) == (Action.FIRST_PLAN, 60.0)


def test_without_either_there_is_none() -> None:
    found = decide(facts(NOTHING), Answers())

    assert (found.action, found.reason, found.counts) == (Action.HOLD, ScalingReason.LOAD_UNKNOWN, None)
    assert "never measured" in found.words


def test_the_first_plan_has_the_least_instances() -> None:
    found = decide(facts(steady(1.0), rules=ScalingRules(least=3)), Answers())

    assert sum(n for _, n in found.counts or ()) == 3


@pytest.mark.parametrize("pause", list(Pause))
def test_a_budget_cut_ignores_pauses_and_missing_metrics(pause: Pause) -> None:
    cut = scaled_problem(budget="0.2")

    found = decide(facts(NOTHING, {"t4": 4}, 75.0, problem=cut, pause=pause), Answers(quick=True))

    assert (found.action, found.reason) == (Action.SHRINK, ScalingReason.BUDGET_CUT)
    assert dict(found.counts or ())["t4"] == 2
    assert not found.within_reach


def test_a_budget_that_still_buys_the_load_gets_a_plan_within_it() -> None:
    cut = scaled_problem(budget="0.6")

    found = decide(facts(steady(60.0), {"v100": 2}, problem=cut), Answers())

    assert (found.reason, dict(found.counts or ())) == (ScalingReason.BUDGET_CUT, {"v100": 0, "t4": 4})


def test_a_budget_that_is_kept_over_holds_what_runs_with_both_numbers() -> None:
    cut = scaled_problem(budget="0.2")

    found = decide(facts(steady(65.0), {"t4": 4}, problem=cut, keeps_over_budget=True), Answers(quick=True))

    assert found.action is Action.HOLD
    assert "0.288 $/h" in found.words
    assert "0.2 $/h" in found.words


def test_a_budget_is_obeyed_though_no_planner_answers() -> None:
    cut = scaled_problem(budget="0.2")

    found = decide(facts(steady(60.0), {"v100": 1, "t4": 4}, problem=cut), lambda _: Unanswered("stopped after 60 s"))

    assert found.action is Action.SHRINK
    assert dict(found.counts or ()) == {"v100": 0, "t4": 2}


def test_a_lowered_maximum_and_a_raised_minimum_are_kept_without_metrics() -> None:
    fewer = decide(facts(NOTHING, {"t4": 6}, 75.0, rules=ScalingRules(most=4)), Answers(quick=True))
    more = decide(facts(NOTHING, {"t4": 1}, 10.0, rules=ScalingRules(least=3)), Answers())

    assert fewer.reason is ScalingReason.LIMITS_CHANGED
    assert dict(fewer.counts or ()) == {"v100": 0, "t4": 4}
    assert (more.action, dict(more.counts or ())["t4"]) == (Action.SCALE_UP, 3)


def test_a_type_that_is_gone_is_replaced() -> None:
    given = facts(steady(38.0), {"t4": 2}, 38.0)
    gone = replace(given, in_force=InForce((("t4", 2), ("k80", 3)), QPS(38.0)))

    assert decide(gone, Answers()).reason is ScalingReason.LIMITS_CHANGED
    assert "k80" in decide(gone, Answers()).words


GONE = InForce((("t4", 2), ("gone", 1)), QPS(30.0))


def test_leaving_a_type_that_is_gone_is_called_a_swap() -> None:
    found = decide(facts(steady(75.0), in_force=GONE), Answers())

    assert (found.action, found.reason) == (Action.REPLACE, ScalingReason.LIMITS_CHANGED)


def test_a_type_that_is_gone_is_left_though_the_others_carry_the_load_alone() -> None:
    found = decide(facts(steady(30.0), in_force=GONE), Answers())

    assert (found.action, dict(found.counts or ())) == (Action.SCALE_DOWN, {"v100": 0, "t4": 2})


def test_a_pause_of_scaling_down_keeps_a_type_that_is_gone_whatever_the_load() -> None:
    found = decide(facts(steady(200.0), in_force=GONE, pause=Pause.SCALE_DOWN), Answers())

    assert (found.action, found.reason) == (Action.HOLD, ScalingReason.LIMITS_CHANGED)


@pytest.mark.parametrize("load", [30.0, 100_000.0], ids=["that fits", "beyond all nodes"])
def test_a_first_plan_that_the_budget_does_not_buy_is_no_failure_of_the_planner(load: float) -> None:
    found = decide(facts(steady(load), problem=scaled_problem(budget="0.01")), Answers())

    assert (found.action, found.reason) == (Action.HOLD, ScalingReason.BEYOND_BUDGET)
    assert found.held == QPS(0)


def test_a_type_whose_instances_wait_longer_than_their_launch_is_left_for_the_next_best() -> None:
    waits = facts(steady(48.0), {"t4": 3}, 48.0, bound={"t4": 1}, waiting={"t4": Seconds(61.0)})
    short = facts(steady(48.0), {"t4": 3}, 48.0, bound={"t4": 1}, waiting={"t4": Seconds(60.0)})

    found = decide(waits, Answers())

    assert (found.action, found.reason, found.scarce) == (Action.REPLACE, ScalingReason.TYPE_SCARCE, "t4")
    assert dict(found.counts or ()) == {"v100": 1, "t4": 1}
    assert decide(short, Answers()).reason is not ScalingReason.TYPE_SCARCE


def test_a_scarce_type_is_left_out_for_three_minutes_and_then_no_longer() -> None:
    def grown(ago: float) -> dict[str, int]:
        seen = Change(
            NOW - ago,
            Action.REPLACE,
            ScalingReason.TYPE_SCARCE,
            (("v100", 0), ("t4", 3)),
            (("v100", 1), ("t4", 1)),
            QPS(48.0),
            "t4",
        )
        given = facts(steady(100.0), {"v100": 1, "t4": 1}, 48.0, changes=(seen,))
        return dict(decide(given, Answers()).counts or ())

    assert grown(179.0) == {"v100": 3, "t4": 1}
    assert grown(181.0)["t4"] > 1


def test_where_no_other_type_carries_more_what_waits_goes_on_waiting() -> None:
    v100, t4 = hetsev_types()
    alone = scaled_problem((replace(v100, max_instances=0), t4))
    waits = facts(steady(48.0), {"t4": 3}, 48.0, problem=alone, bound={"t4": 1}, waiting={"t4": Seconds(100.0)})

    found = decide(waits, Answers(quick=True))

    assert (found.action, found.reason) == (Action.HOLD, ScalingReason.TYPE_SCARCE)
    assert not found.within_reach


def test_instances_without_room_do_not_keep_the_others_from_shrinking() -> None:
    v100, t4 = hetsev_types()
    alone = scaled_problem((replace(v100, max_instances=0), t4))
    waits = facts(steady(10.0), {"t4": 3}, 10.0, problem=alone, bound={"t4": 1}, waiting={"t4": Seconds(100.0)})

    assert decide(waits, Answers(quick=True)).action is not Action.HOLD


def test_a_pause_of_scaling_down_keeps_instances_without_room() -> None:
    v100, t4 = hetsev_types()
    alone = scaled_problem((replace(v100, max_instances=0), t4))
    bound, waiting = {"t4": 1}, {"t4": Seconds(100.0)}
    waits = facts(steady(10.0), {"t4": 3}, 10.0, problem=alone, bound=bound, waiting=waiting, pause=Pause.SCALE_DOWN)

    assert decide(waits, Answers(quick=True)).action is Action.HOLD


def test_what_is_planned_and_not_bound_yet_takes_its_part_of_a_pool() -> None:
    v100, t4 = (replace(o, pool="gpus", demand=ResourceAmounts(gpus=1)) for o in hetsev_types())
    pool = Pool("gpus", ResourceAmounts(gpus=2))
    full = scaled_problem((v100, replace(t4, running=1)), pools=(pool,))

    found = decide(facts(steady(400.0), {"t4": 3}, problem=full, bound={"t4": 1}), Answers(quick=True))

    assert found.action is Action.HOLD
    assert not found.within_reach


def test_nothing_changes_until_planners_answer() -> None:
    for given in (facts(steady(60.0)), facts(steady(60.0), {"t4": 9}), facts(NOTHING, {"t4": 9}, 9.0)):
        problem = replace(given.problem, planner=None, budget=scaled_problem(budget="0.1").budget)
        found = decide(replace(given, problem=problem), lambda _: Pending())

        assert (found.action, found.pending) == (Action.HOLD, True)


def test_a_planner_that_fails_changes_nothing_and_says_why() -> None:
    problem = replace(scaled_problem(), planner=None)

    found = decide(facts(steady(60.0), {"t4": 2}, problem=problem), lambda _: Unanswered("out of memory"))

    assert (found.action, found.reason) == (Action.HOLD, ScalingReason.PLANNER_FAILED)
    assert "out of memory" in found.words


def test_rules_are_those_of_the_spec() -> None:
    spec = ScalingSpec.model_validate(
        {
            "minInstances": 2,
            "maxInstances": 9,
            "saturation": "0.7",
            "scaleUp": {
                "stabilizationWindow": "1m",
                "policies": [{"type": "Percent", "value": 50, "period": "1m"}],
                "selectPolicy": "Min",
                "lookAhead": "None",
            },
            "replacement": "WhenItPays",
            "paybackHorizon": "2h",
        }
    )

    assert scaling_rules(spec) == ScalingRules(
        2,
        9,
        0.7,
        0.1,
        Direction(Seconds(60.0), (StepLimit("Percent", 50, Seconds(60.0)),), "Min"),
        False,
        Direction(Seconds(300.0)),
        True,
        Seconds(7200.0),
    )
    assert scaling_rules(ScalingSpec()) == ScalingRules()
