"""Plans where figures are far apart: batches as rare as 1e-12, types thousands of times faster, loads next to none."""

from __future__ import annotations

from dataclasses import replace

import pytest

from effort import spread
from hetserve.api.service.load import BatchDistribution
from hetserve.base.units import QPS, MicroDollarsPerHour, Seconds
from hetserve.demand import BatchMix
from hetserve.demand.batches import expanded
from hetserve.planning import Problem, plan
from hetserve.planning.check import violations
from hetserve.planning.flow.frontier import frontier
from hetserve.planning.flow.planner import capacity
from hetserve.planning.flow.programs.classes import class_table
from hetserve.planning.flow.programs.program import CEILING, fixed, least_cost
from hetserve.planning.flow.search.judge import MOST_INSTANCES
from hetserve.profiles import LinearProfile, Spread
from testing.planning import kairos_types, line, min_cost, option, problem

FAST, CHEAP = option("fast", "3", line(0.2, 0.06)), option("cheap", "0.01", line(600, 70))
BELL = {"type": "Normal", "mean": "60", "standardDeviation": "7", "max": 120}
TAILED = expanded(BatchDistribution.model_validate(BELL))
TWO = option("small", "0.5", line(5, 3)), option("large", "1", line(5, 1))


def trickle(load: float, **fields: object) -> Problem:
    return min_cost((FAST, CHEAP), load, slo_ms=2000, **fields)


def varying(milliseconds: float, variation: float) -> LinearProfile:
    return replace(line(milliseconds), variation=Spread.of_variation(variation))


@pytest.mark.parametrize("quick", [False, True])
@pytest.mark.parametrize("load", [0.02, 90.0])
def test_a_mix_by_name_is_planned_however_rare_its_largest_batches_are(load: float, quick: bool) -> None:
    given = min_cost(TWO, load, mix=TAILED, slo_ms=2000)
    made = plan(given, quick=quick)
    assert (made.reason, violations(given, made)) == ("PlanFeasible", ())
    assert min(TAILED.shares) < 1e-9


def test_the_most_for_a_budget_is_planned_for_such_a_mix_too() -> None:
    given = problem(kairos_types(), mix=TAILED, budget=MicroDollarsPerHour(2_500_000))
    assert plan(given).reason == "PlanFeasible"


@pytest.mark.parametrize("weight", spread([5e-324, 1e-9, 1e-15, 1e-200], 1))
@pytest.mark.parametrize("load", [1e-7, 1.0, 500.0])
def test_a_batch_that_hardly_ever_comes_wants_an_instance_that_serves_it(weight: float, load: float) -> None:
    mix = BatchMix.of([(1, 1e9), (100, weight)])
    types = option("whole", "1", line(5, 1)), option("part", "0.2", line(5, 1, max_batch=10))
    given = min_cost(types, load, mix=mix, slo_ms=500)
    for made in (plan(given), plan(given, quick=True)):
        assert (made.reason, violations(given, made)) == ("PlanFeasible", ()), made.message
        assert dict(made.counts)["whole"] == 1


def test_the_program_takes_no_class_for_free() -> None:
    table = class_table(min_cost(TWO, 1.0, mix=TAILED, slo_ms=2000))
    mix = least_cost(table, CEILING, 1e-6)
    assert mix is not None
    assert sum(mix.counts) == 1
    found = fixed(table, CEILING, mix.counts, absent=False)
    assert found is not None
    assert found.flow.sum(axis=0) == pytest.approx(found.rate * table.shares, rel=1e-6)


def test_the_integer_program_counts_slow_instances_beside_very_fast_ones() -> None:
    fast = option("fast", "1", line(1 / 900_000), max_instances=1)
    made = plan(min_cost((fast, option("slow", "0.000001", line(1000 / 0.6))), 1e9, slo_ms=1e6), "ilp")
    assert (made.reason, dict(made.counts)["fast"]) == ("PlanFeasible", 1)


@pytest.mark.parametrize("quick", [False, True])
@pytest.mark.parametrize("load", [1e-9, 1e-3, 0.2])
def test_a_small_load_is_served_by_what_costs_least(load: float, quick: bool) -> None:
    made = plan(trickle(load), quick=quick)
    assert dict(made.counts) == {"fast": 0, "cheap": 1}
    assert made.floor_cost is not None
    assert made.floor_cost <= made.cost


def test_a_budget_that_buys_the_plan_is_not_too_low() -> None:
    enough = plan(trickle(0.2, budget=MicroDollarsPerHour(10_000)))
    assert enough.feasible, enough.message
    less = plan(trickle(0.2, budget=MicroDollarsPerHour(9_999)))
    assert less.reason == "BudgetTooLow"
    assert "costs at least 0.01 $/h (1xcheap)" in less.message


def test_no_load_and_any_budget_are_planned_from_the_slowest_type_up() -> None:
    idle = plan(replace(trickle(1.0, least_total=1), load=QPS(0.0)))
    assert dict(idle.counts) == {"fast": 0, "cheap": 1}
    most = problem((FAST, CHEAP), slo_ms=2000, budget=MicroDollarsPerHour(5000))
    assert "costs at least 0.01 $/h (1xcheap)" in plan(most).message
    given = trickle(0.2)
    assert frontier(given, plan(given), points=2)[0].budget == 10_000


@pytest.mark.parametrize("load", spread([7.2, 7.5, 8.0], 1))
def test_an_instance_that_is_hardly_busy_is_tried_at_the_load(load: float) -> None:
    """Trials at its own highest rate would take too long."""
    types = option("gpu", "0.65", line(0.25, 0.06)), option("cpu", "0.36", line(100, 28))
    made = plan(min_cost(types, load, slo_ms=2000))
    assert (made.feasible, made.tried) == (True, True), made.message
    assert made.cost <= 650_000


def test_counts_beyond_what_can_be_tried_are_judged_by_theory_and_never_said_to_be_tried() -> None:
    given = min_cost((option("one", "0.1", line(10)),), 0.99 * MOST_INSTANCES / 0.010, slo_ms=12)
    made = plan(given)
    assert (made.feasible, made.tried) == (True, False), made.message
    assert dict(made.counts)["one"] > MOST_INSTANCES
    assert "not tried, as trials of so many instances take too long" in made.verdict


@pytest.mark.parametrize("names", [("a", "b"), ("b", "a")])
@pytest.mark.parametrize("load", [300.0, 600.0])
def test_a_cheap_type_is_found_of_which_most_that_may_be_late_are_late_without_a_wait(
    names: tuple[str, str], load: float
) -> None:
    """No program that leaves a part of them to waiting gives its counts."""
    fast, slow = option(names[0], "0.12", line(2)), option(names[1], "0.0012", varying(41, 0.25))
    types = (fast, slow) if names < ("b",) else (slow, fast)
    made = plan(min_cost(types, load, slo_ms=57, mix=BatchMix.single(1), percentile=90))
    assert (made.feasible, dict(made.counts)[fast.name]) == (True, 0), made.message


@pytest.mark.deep
@pytest.mark.parametrize("names", [("a", "b"), ("b", "a")])
def test_what_carries_a_load_holds_as_much_for_its_money_however_many_are_late_without_a_wait(
    names: tuple[str, str],
) -> None:
    """Of the 1 % that may be late 0.95 % are."""
    small, large = option(names[0], "1", line(10)), option(names[1], "9", line(10))
    types = replace(small, profile=varying(100, 0.04)), replace(large, profile=line(1000))
    given = min_cost(types if names < ("b",) else types[::-1], 0.001, slo_ms=109.85)
    carried = plan(given)
    assert carried.feasible, carried.message
    most = plan(replace(given, objective="MaxThroughput", load=None, budget=carried.cost))
    assert (most.counts, (most.held_qps or 0.0) >= 0.001) == (carried.counts, True), most.message
    held, tried = capacity(given, carried.counts)
    assert tried
    assert held == pytest.approx(most.held_qps or 0.0, rel=0.03)
    assert all(one.planners[0][1] and one.planners[0][1].held for one in frontier(given, carried, points=2))


def test_what_holds_next_to_nothing_of_its_ceiling_still_holds_that() -> None:
    """A query that has to wait at all is late, and one in a thousand may."""
    given = problem(
        (option("one", "1", line(100)),), slo_ms=100.5, percentile=99.9, budget=MicroDollarsPerHour(1_000_000)
    )
    made = plan(given)
    assert (made.reason, made.tried) == ("PlanFeasible", True), made.message
    assert 1e-3 < (made.held_qps or 0.0) < 0.05
    never = plan(replace(given, slo=replace(given.slo, latency=Seconds(0.0999))))
    assert never.reason == "NoTypeMeetsSLO"
