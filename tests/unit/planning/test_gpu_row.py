"""Where a pool is short of GPUs, no planner plans more instances than find a place on them."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from hetserve.api.conditions import Reason
from hetserve.base.units import MiB
from hetserve.planning import Plan, Pool, Problem, ResourceAmounts, TypeOption, plan
from hetserve.planning.flow.programs.classes import class_table
from hetserve.planning.flow.search.leading import fits
from testing.planning import line, min_cost, option, problem

ONE = ResourceAmounts(gpu_memory=MiB(3072), gpus=1)
ROOM = ResourceAmounts(gpu_memory=MiB(100_000), gpus=3)
POOLS = (Pool("t4", ROOM),)


def shared(running: int = 0, **fields: Any) -> TypeOption:
    return dataclasses.replace(option("t4", "0.1", line(40), demand=ONE, pool="t4", running=running), **fields)


def most(running: int = 0) -> Problem:
    return problem([shared(running)], pools=POOLS, budget="1")


def least(load: float, running: int = 0) -> Problem:
    return min_cost([shared(running), option("v100", "5", line(40))], load, pools=POOLS)


def answer(asked: Problem, planner: str) -> Plan:
    if planner == "exhaustive":
        return plan(asked, planner, lambda counts: float(sum(count for _, count in counts)))
    return plan(asked, planner, quick=True)


@pytest.mark.parametrize("planner", ["flow", "kairos", "homogeneous", "exhaustive"])
@pytest.mark.parametrize("running", [0, 2])
def test_most_throughput_takes_the_gpus_that_have_a_place_beside_what_runs(planner: str, running: int) -> None:
    made = answer(most(running), planner)
    assert made.feasible, made.message
    assert made.reason != Reason.PLANNER_FAILED
    assert dict(made.counts)["t4"] == running + 3


@pytest.mark.parametrize("planner", ["flow", "ilp", "greedy"])
def test_least_cost_fills_the_gpus_that_have_a_place_and_goes_to_another_type(planner: str) -> None:
    made = answer(least(100), planner)
    assert made.feasible, made.message
    counts = dict(made.counts)
    assert counts["t4"] <= 3
    assert counts["v100"] >= 1


@pytest.mark.parametrize("planner", ["flow", "ilp", "greedy"])
def test_what_runs_takes_no_place_anew(planner: str) -> None:
    made = answer(least(50, running=4), planner)
    assert made.feasible, made.message
    assert dict(made.counts)["v100"] == 0


def test_counts_beyond_the_gpus_are_never_tried() -> None:
    table = class_table(most(running=1))
    assert [fits(table, (count,)) for count in (0, 1, 4, 5)] == [True, True, True, False]


def test_instances_that_may_share_a_gpu_take_no_place() -> None:
    copies = dataclasses.replace(ONE, gpus=0)
    asked = problem([shared(demand=copies)], pools=POOLS, budget="1")
    assert dict(answer(asked, "kairos").counts)["t4"] == 10


def test_least_instances_that_gpus_have_no_place_for_are_named() -> None:
    made = plan(problem([shared(min_instances=4)], pools=POOLS), "kairos")
    assert made.reason == Reason.CAPACITY_TOO_LOW
    assert "(4xt4) take 4 places of GPUs more, 3 are free" in made.message


def test_a_base_that_does_not_fit_is_named_with_its_places() -> None:
    none = (Pool("t4", ResourceAmounts(gpu_memory=MiB(100_000), gpus=0)),)
    made = plan(problem([shared()], pools=none), "kairos")
    assert made.reason == Reason.CAPACITY_TOO_LOW
    assert "3072 MiB of GPU memory and a place on 1 GPUs" in made.message
