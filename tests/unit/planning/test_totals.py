"""Bounds on all instances together, and plans for no load: by hand, in words, and kept by the checker."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hetserve.api.conditions import Reason
from hetserve.base.units import QPS, MiB, MicroDollarsPerHour
from hetserve.demand import BatchMix
from hetserve.planning import Plan, Pool, Problem, ResourceAmounts, plan
from hetserve.planning.check import violations
from hetserve.planning.flow.programs.classes import class_table
from hetserve.planning.flow.programs.program import CEILING, Margin, least_cost
from hetserve.registry.planners import PLANNERS
from testing.planning import hetsev_types, kairos_types, line, min_cost, option, problem

TOTALS = ("flow", "ilp", "greedy")
MIX = BatchMix.of((batch, 1 / batch) for batch in range(50, 1000, 50))
LOAD = min_cost(kairos_types(), 60, mix=MIX)
MIXED = BatchMix.of([(1, 3), (10, 1)])
LARGE, SMALL = option("large", "1", line(0, 10)), option("small", "0.1", line(0, 40))


def counts(made: Plan) -> dict[str, int]:
    assert made.feasible, made.message
    return {name: n for name, n in made.counts if n}


def total(made: Plan) -> int:
    return sum(counts(made).values())


@pytest.mark.parametrize("planner", TOTALS)
def test_at_most_so_many_instances_are_fewer_and_larger_ones(planner: str) -> None:
    """100 q/s: four of 25 q/s for 0.288 $/h, or two of 50 q/s for 1.146 $/h."""
    asked = min_cost(hetsev_types(), 100, planner=planner)
    free, bound = plan(asked, quick=True), plan(replace(asked, most_total=4 if planner == "flow" else 3), quick=True)
    assert total(free) > total(bound)
    assert free.cost < bound.cost
    if planner != "flow":
        assert counts(free) == {"t4": 4}
        assert counts(bound) == {"v100": 1, "t4": 2}


@pytest.mark.parametrize("planner", TOTALS)
def test_at_least_so_many_instances_are_the_cheapest_that_carry_the_load_too(planner: str) -> None:
    made = plan(min_cost(hetsev_types(), 20, planner=planner, least_total=6), quick=True)
    assert counts(made) == {"t4": 6}


def test_flow_makes_up_a_least_total_with_types_that_serve_a_part() -> None:
    """One must serve batch 10; the others cost a tenth."""
    made = plan(min_cost([LARGE, SMALL], 5, mix=MIXED, slo_ms=200, least_total=7), "flow")
    assert counts(made) == {"large": 1, "small": 6}
    assert made.tried


def test_a_tried_plan_within_totals_holds_its_load() -> None:
    made = plan(replace(LOAD, most_total=5))
    assert (made.tried, total(made) <= 5) == (True, True)
    assert made.held_qps == pytest.approx(60)
    assert violations(replace(LOAD, most_total=5), made) == ()
    assert all(sum(n for _, n in one.counts) <= 5 for one in made.ranking)
    assert made.next_step is None or sum(n for _, n in made.next_step.counts) <= 5
    assert made.cheaper is None or sum(n for _, n in made.cheaper.candidate.counts) <= 5


def test_the_next_step_and_the_alternatives_of_the_integer_program_keep_the_total() -> None:
    made = plan(min_cost(hetsev_types(), 100, least_total=2, most_total=4), "ilp")
    assert counts(made) == {"t4": 4}
    assert made.next_step is not None
    listed = [made.next_step.counts, *(one.counts for one in made.ranking)]
    assert all(2 <= sum(n for _, n in one) <= 4 for one in listed)


def test_a_load_beyond_the_total_is_refused_with_both_numbers_and_what_helps() -> None:
    made = plan(replace(LOAD, most_total=3))
    assert (made.feasible, made.reason) == (False, Reason.CAPACITY_TOO_LOW)
    assert "at most 3 instances in all (maxInstances) are allowed, which carry 41.3 q/s at most" in made.message
    assert "the load needs 60.0 q/s, which takes at least 5: raise spec.scaling.maxInstances to 5" in made.message


def test_what_could_hold_by_the_program_but_not_in_trials_says_the_total() -> None:
    noisy = min_cost([option("a", "1", line(90))], 32, slo_ms=100, most_total=3)
    made = plan(noisy)
    assert (made.feasible, made.reason) == (False, Reason.CAPACITY_TOO_LOW)
    assert "with at most 3 instances in all (maxInstances) keeps 100 ms" in made.message


@pytest.mark.parametrize("planner", ["ilp", "greedy"])
def test_hetsevs_planners_name_the_total_and_what_it_carries(planner: str) -> None:
    made = plan(min_cost(hetsev_types(), 200, most_total=3), planner)
    assert (made.feasible, made.reason) == (False, Reason.CAPACITY_TOO_LOW)
    assert "at most 3 instances in all (maxInstances) are allowed" in made.message
    assert "carry 150.0 q/s, 50.0 q/s too little" in made.message


def test_a_least_total_that_the_budget_does_not_buy_is_too_dear() -> None:
    made = plan(replace(LOAD, least_total=20, budget=MicroDollarsPerHour(900_000)))
    assert (made.feasible, made.reason) == (False, Reason.BUDGET_TOO_LOW)
    assert "no mix with at least 20 instances in all (minInstances)" in made.message
    dear = plan(min_cost(hetsev_types(), 20, least_total=20, budget="0.9"), "ilp")
    assert (dear.feasible, dear.reason) == (False, Reason.BUDGET_TOO_LOW)
    assert "costs 1.44 $/h (20xt4)" in dear.message


@pytest.mark.parametrize("planner", TOTALS)
def test_a_least_total_for_which_a_pool_has_no_room_is_refused(planner: str) -> None:
    demand = ResourceAmounts(gpu_memory=MiB(10))
    types = [option("t4", "0.1", line(40), demand=demand, pool="p")]
    asked = min_cost(types, 10, pools=(Pool("p", ResourceAmounts(gpu_memory=MiB(30))),), least_total=4)
    made = plan(asked, planner)
    assert (made.feasible, made.reason) == (False, Reason.CAPACITY_TOO_LOW)
    assert "no mix of at least 4 instances in all (minInstances)" in made.message


REFUSED: dict[str, tuple[dict[str, Any], Reason, str]] = {
    "negative": ({"least_total": -1}, Reason.SPEC_INVALID, "least_total -1: must be 0 or more"),
    "none at all": ({"most_total": 0}, Reason.SPEC_INVALID, "most_total 0: must be 1 or more"),
    "crossed": ({"least_total": 4, "most_total": 3}, Reason.SPEC_INVALID, "least_total 4 is more than most_total 3"),
    "types want more": (
        {"types": hetsev_types(min_instances=2), "most_total": 3},
        Reason.CAPACITY_TOO_LOW,
        "the least instances wanted (2xt4, 2xv100) are 4, at most 3 are allowed in all (maxInstances)",
    ),
    "types have fewer": (
        {"types": hetsev_types(max_instances=2), "least_total": 5},
        Reason.CAPACITY_TOO_LOW,
        "at least 5 instances are wanted in all (minInstances), only 4 can be had",
    ),
    "no load and nothing wanted": ({"load": 0.0}, Reason.SPEC_INVALID, "load 0 q/s: must be a positive finite number"),
    "less than no load": ({"load": -1.0, "least_total": 1}, Reason.SPEC_INVALID, "load -1.0 q/s: must be a positive"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bounds_that_contradict_each_other_are_refused_in_words(case: str) -> None:
    fields, reason, words = REFUSED[case]
    for planner in TOTALS:
        made = plan(replace(min_cost(hetsev_types(), 20), **fields), planner)
        assert (made.feasible, made.reason) == (False, reason)
        assert words in made.message


@pytest.mark.parametrize("planner", [name for name in PLANNERS.names if name not in TOTALS])
def test_planners_that_keep_no_totals_refuse_them(planner: str) -> None:
    for bounds in ({"least_total": 1}, {"most_total": 9}):
        made = plan(min_cost(hetsev_types(), 20, **bounds), planner)
        assert (made.feasible, made.reason) == (False, Reason.SPEC_INVALID)
        assert f"planner {planner} keeps no bounds" in made.message
        assert "those that do: flow, ilp, greedy" in made.message


def test_the_checker_counts_all_instances() -> None:
    made = plan(min_cost(hetsev_types(), 100), "ilp")
    few, many = (min_cost(hetsev_types(), 100, **bounds) for bounds in ({"most_total": 3}, {"least_total": 5}))
    assert violations(few, made) == ("4 instances in all: at most 3 are allowed",)
    assert violations(many, made) == ("4 instances in all: at least 5 are wanted",)
    assert violations(replace(few, least_total=4, most_total=4), made) == ()


def test_a_type_that_another_replaces_is_still_left_out_under_totals() -> None:
    """The slow one is dearer and slower: seven of the fast one make the least total, not some of each."""
    types = [option("fast", "0.1", line(10)), option("slow", "0.2", line(20))]
    asked = min_cost(types, 5, slo_ms=100, least_total=7)
    mix = least_cost(class_table(asked), Margin(), 5.0)
    assert mix is not None
    assert dict(class_table(asked).counts(mix.counts)) == {"fast": 7, "slow": 0}


def test_a_cheap_type_with_a_limit_leaves_the_rest_of_the_least_total_to_the_next() -> None:
    types = [option("fast", "0.1", line(10), max_instances=3), option("slow", "0.2", line(20))]
    mix = least_cost(class_table(asked := min_cost(types, 5, slo_ms=100, least_total=7)), CEILING, 5.0)
    assert mix is not None
    assert dict(class_table(asked).counts(mix.counts)) == {"fast": 3, "slow": 4}


# No load


def test_no_load_of_the_program_is_of_every_batch() -> None:
    table = class_table(min_cost([LARGE, SMALL], 0, mix=MIXED, slo_ms=200))
    found = least_cost(table, Margin(), 0.0)
    assert found is not None
    assert dict(table.counts(found.counts)) == {"large": 1, "small": 0}


@pytest.mark.parametrize("planner", TOTALS)
def test_no_load_takes_the_cheapest_mix_that_serves_every_batch(planner: str) -> None:
    made = plan(min_cost([LARGE, SMALL], 0, mix=MIXED, slo_ms=200, least_total=1), planner)
    assert counts(made) == {"large": 1}


def test_no_load_of_flow_is_tried_and_says_what_it_holds() -> None:
    asked = min_cost([LARGE, SMALL], 0, mix=MIXED, slo_ms=200, least_total=3)
    made = plan(asked)
    assert counts(made) == {"large": 1, "small": 2}
    assert made.tried
    assert made.held_qps is not None
    assert made.held_qps > 5
    assert made.verdict.startswith("for no load: holds ")
    assert "no mix that serves every batch costs less than 1.2 $/h" in made.verdict
    assert violations(asked, made) == ()


def test_no_load_keeps_what_types_want() -> None:
    types = [replace(LARGE, min_instances=0), replace(SMALL, min_instances=2)]
    made = plan(min_cost(types, 0, mix=MIXED, slo_ms=200), "flow", quick=True)
    assert counts(made) == {"large": 1, "small": 2}
    assert made.verdict.startswith("for no load: not tried")


def test_no_load_of_types_that_serve_no_large_batch_is_refused() -> None:
    made = plan(min_cost([SMALL], 0, mix=MIXED, slo_ms=200, least_total=1))
    assert (made.feasible, made.reason) == (False, Reason.NO_TYPE_MEETS_SLO)


def test_no_load_within_too_little_a_budget_is_refused() -> None:
    made = plan(min_cost([LARGE, SMALL], 0, mix=MIXED, slo_ms=200, least_total=1, budget="0.5"))
    assert (made.feasible, made.reason) == (False, Reason.BUDGET_TOO_LOW)
    assert "could serve the whole mix within the SLO: the cheapest that could costs at least 1 $/h" in made.message


def test_the_most_throughput_wants_a_load_or_none() -> None:
    asked: Problem = replace(problem([LARGE], mix=MIXED), load=QPS(0.0), least_total=1)
    assert plan(asked).reason == Reason.SPEC_INVALID
