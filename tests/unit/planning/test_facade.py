from __future__ import annotations

import dataclasses
import math
from typing import Any

import pytest

from hetserve.api.conditions import Reason
from hetserve.base.units import MicroDollarsPerHour, Seconds
from hetserve.demand import BatchMix
from hetserve.planning import Pool, ResourceAmounts, TypeRefusal, plan
from testing.planning import hetsev_types, line, min_cost, option, problem


def test_each_objective_has_its_planner_and_either_can_be_asked_for() -> None:
    both = problem(hetsev_types(), load=100.0)
    assert plan(both).planner == "flow"
    assert plan(both, "robust").planner == "robust"
    assert plan(both, "kairos").planner == "kairos"
    assert plan(both, "ilp").planner == "ilp"
    assert plan(dataclasses.replace(both, objective="MinCost")).planner == "flow"


def test_an_unknown_planner_is_a_mistake_of_the_caller() -> None:
    with pytest.raises(ValueError, match="planner 'magic' is unknown; there are: flow, robust, kairos, kairos-plus"):
        plan(problem(hetsev_types()), "magic")


def test_what_was_left_out_before_is_repeated_in_every_plan() -> None:
    left = TypeRefusal("gone", "no ModelProfile")
    assert plan(problem(hetsev_types(), left_out=(left,))).refusals[0] == left
    assert plan(min_cost(hetsev_types(), 10, left_out=(left,))).refusals[0] == left
    assert plan(problem(hetsev_types(), left_out=(left,), slo_ms=1)).refusals[0] == left


TYPE = option("t", "1", line(10))
INVALID: dict[str, tuple[dict[str, Any], str]] = {
    "no types": ({"types": ()}, "the problem has no instance types"),
    "a name twice": ({"types": (TYPE, TYPE)}, "type t is there 2 times"),
    "a price of 0": (
        {"types": (dataclasses.replace(TYPE, price=MicroDollarsPerHour(0)),)},
        "price 0 micro-dollars/h must be more than 0",
    ),
    "negative running": ({"types": (dataclasses.replace(TYPE, running=-1),)}, "-1 running instances"),
    "negative cap": ({"types": (dataclasses.replace(TYPE, max_instances=-1),)}, "max_instances -1"),
    "launch time NaN": ({"types": (dataclasses.replace(TYPE, launch_time=Seconds(math.nan)),)}, "launch time nan s"),
    "latency 0": ({"types": (option("t", "1", line(0)),)}, "mean latency 0.0 s at batch 1; must be positive"),
    "latency NaN": ({"types": (option("t", "1", line(math.nan)),)}, "mean latency nan s"),
    "budget 0": ({"budget": 0}, "budget 0 micro-dollars/h: must be more than 0"),
    "load NaN": ({"load": math.nan}, "load nan q/s: must be a positive finite number"),
    "threshold 0": ({"saturation_threshold": 0.0}, "saturation threshold 0.0: must be above 0"),
    "launch weight -1": ({"launch_weight": -1.0}, "launch weight -1.0"),
    "SLO 0": ({"slo_ms": 0.0}, "SLO latency 0.0 s: must be positive"),
    "percentile 100": ({"percentile": 100.0}, "SLO percentile 100: must be above 50 and below 100"),
    "shares that do not sum to 1": ({"mix": BatchMix((1, 2), (0.5, 0.6))}, "shares of the batch mix must sum to 1"),
    "a pool that is not given": (
        {"types": (dataclasses.replace(TYPE, pool="q"),), "pools": (Pool("p", ResourceAmounts()),)},
        "draws on pool q, which is not given; there are: ['p']",
    ),
}


@pytest.mark.parametrize("planner", ["kairos", "ilp"])
@pytest.mark.parametrize("case", INVALID)
def test_an_invalid_problem_is_an_answer_not_an_exception(case: str, planner: str) -> None:
    fields, message = INVALID[case]
    made = plan(problem(**{"types": (TYPE,), "load": 1.0, **fields}), planner)
    assert not made.feasible
    assert made.reason == Reason.SPEC_INVALID
    assert message in made.message
