"""The most load within reach, and what counts hold: both numbers, every limit, and nothing that does not matter."""

from __future__ import annotations

import itertools
import pickle
from dataclasses import replace

import pytest

from hetserve.api.conditions import Reason
from hetserve.base.units import QPS, MiB, MicroDollarsPerHour, Seconds
from hetserve.demand import BatchMix
from hetserve.planning import Plan, Pool, Problem, ResourceAmounts, plan
from hetserve.planning.check import violations
from hetserve.planning.reach import PlannerJob, capacity_of, done, for_capacity, most_within_reach
from hetserve.planning.registry import trial
from testing.planning import kairos_types, line, min_cost, option, problem

MIX = BatchMix.of((batch, 1 / batch) for batch in range(50, 1000, 50))
BEYOND = min_cost(kairos_types(), 900, mix=MIX)


def capped(given: Problem, most: int, **least: int) -> Problem:
    types = (replace(o, max_instances=most, min_instances=least.get(o.name[:2], 0)) for o in given.types)
    return replace(given, types=tuple(types))


def total(made: Plan) -> int:
    return sum(n for _, n in made.counts)


@pytest.mark.parametrize(
    "asked",
    [
        replace(BEYOND, most_total=6),
        pytest.param(replace(BEYOND, budget=MicroDollarsPerHour(2_500_000)), marks=pytest.mark.deep),
        replace(BEYOND, budget=MicroDollarsPerHour(2_500_000), least_total=8, most_total=9),
        pytest.param(capped(BEYOND, 2), marks=pytest.mark.deep),
        capped(BEYOND, 3, r5=2, t3=1),
    ],
    ids=["total", "budget", "budget and totals", "caps", "caps and minimums"],
)
def test_the_most_within_reach_keeps_every_limit_and_says_both_numbers(asked: Problem) -> None:
    assert not plan(asked, quick=True).feasible
    made = most_within_reach(asked)
    assert made.feasible
    assert made.tried
    assert made.held_qps is not None
    assert violations(replace(asked, load=QPS(made.held_qps)), made) == ()
    assert made.message.startswith(f"carries {made.held_qps:.1f} of 900.0 q/s in simulation")
    assert (made.bound_qps, made.reason) == (None, Reason.PLAN_FEASIBLE)
    assert made.held_qps < (made.ceiling_qps or 0)
    assert made.held_qps == pytest.approx(capacity_of(asked, made.counts).held, rel=0.02)


@pytest.mark.deep
def test_more_reach_never_carries_noticeably_less() -> None:
    held = [most_within_reach(replace(BEYOND, most_total=most)).held_qps or 0 for most in (2, 4, 8)]
    assert held == sorted(held)
    assert held[-1] > 3 * held[0]


def test_the_most_within_reach_keeps_what_runs_where_it_may_not_go() -> None:
    """Four slow ones run and stay: the two places left go to the fast type."""
    asked = replace(capped(BEYOND, 9, r5=4), most_total=6)
    held = dict(most_within_reach(asked).counts)
    assert (held["r5n.large"], held["g4dn.xlarge"]) == (4, 2)


def test_the_most_within_reach_has_the_least_total_though_some_idle() -> None:
    """The one large instance serves batch 10: beyond some small ones, more carry no more."""
    types = [option("large", "1", line(0, 10), max_instances=1), option("small", "0.1", line(0, 40))]
    mix = BatchMix.of([(1, 3), (10, 1)])
    made = most_within_reach(min_cost(types, 900, mix=mix, slo_ms=200, least_total=9, most_total=12))
    assert made.feasible, made.message
    assert dict(made.counts) == {"large": 1, "small": 8}


def test_without_any_bound_the_answer_is_in_words() -> None:
    free = replace(BEYOND, types=tuple(replace(o, max_instances=3) for o in BEYOND.types[1:]) + BEYOND.types[:1])
    made = most_within_reach(free)
    assert (made.feasible, made.reason) == (False, Reason.SPEC_INVALID)
    assert "neither a budget nor a limit bounds the instances of g4dn.xlarge: set spec.budget.hourly" in made.message


def test_a_pool_bounds_the_types_that_draw_on_it() -> None:
    demand = ResourceAmounts(gpu_memory=MiB(10))
    types = [option("gpu", "1", line(10), demand=demand, pool="p", running=1)]
    asked = min_cost(types, 9_000, slo_ms=100, pools=(Pool("p", ResourceAmounts(gpu_memory=MiB(35))),))
    assert dict(most_within_reach(asked).counts) == {"gpu": 4}


def test_an_untried_answer_is_quick_and_says_so() -> None:
    made = most_within_reach(replace(BEYOND, most_total=6), quick=True)
    assert (made.feasible, made.tried, made.held_qps) == (True, False, None)
    assert " of 900.0 q/s by the program, not tried: " in made.message


def test_minimums_beyond_the_budget_and_other_objectives_are_refused() -> None:
    poor = replace(capped(BEYOND, 9, r5=9), budget=MicroDollarsPerHour(500_000))
    assert most_within_reach(poor).reason == Reason.BUDGET_TOO_LOW
    assert most_within_reach(replace(BEYOND, most_total=0)).reason == Reason.SPEC_INVALID
    with pytest.raises(ValueError, match="objective MaxThroughput"):
        most_within_reach(problem(kairos_types(), mix=MIX))


# Capacity

FEW = (("g4dn.xlarge", 1), ("r5n.large", 4))


def test_the_capacity_of_counts_is_what_the_judge_of_the_most_throughput_says() -> None:
    every = tuple((o.name, dict(FEW).get(o.name, 0)) for o in BEYOND.types)
    found = capacity_of(BEYOND, FEW)
    assert found.tried
    assert found.held == trial(replace(BEYOND, load=None), every).held
    assert trial(replace(BEYOND, load=QPS(found.held * 0.97)), every).holds
    assert not trial(replace(BEYOND, load=QPS(found.held * 1.1)), every).holds


def test_only_what_decides_the_capacity_does() -> None:
    other = replace(
        BEYOND,
        service="other",
        load=QPS(1.0),
        budget=MicroDollarsPerHour(5),
        planner="ilp",
        launch_weight=1.0,
        saturation_threshold=0.5,
        least_total=3,
        most_total=4,
        types=tuple(
            replace(o, running=2, max_instances=5, min_instances=1, launch_time=Seconds(9.0)) for o in BEYOND.types
        ),
    )
    assert for_capacity(other) == for_capacity(BEYOND)
    assert capacity_of(other, FEW[::-1]) == capacity_of(BEYOND, FEW)


def test_counts_that_cannot_serve_every_batch_hold_nothing() -> None:
    assert capacity_of(BEYOND, (("t3.xlarge", 5),)).held == QPS(0.0)
    assert capacity_of(BEYOND, ()).held == QPS(0.0)


def test_too_many_instances_to_try_and_a_quick_answer_are_not_tried_and_say_less() -> None:
    many = capacity_of(BEYOND, (("g4dn.xlarge", 2_000),))
    quick, slow = capacity_of(BEYOND, FEW, quick=True), capacity_of(BEYOND, FEW)
    assert (many.tried, quick.tried) == (False, False)
    assert 0 < quick.held < slow.held
    assert many.held > 1_500 * capacity_of(BEYOND, (("g4dn.xlarge", 1),)).held


@pytest.mark.deep
def test_more_instances_hold_more_but_for_some_percent() -> None:
    held = [capacity_of(BEYOND, (("g4dn.xlarge", n), ("r5n.large", n))).held for n in (1, 2, 3, 5)]
    assert all(b > 1.2 * a for a, b in itertools.pairwise(held))


@pytest.mark.parametrize(("counts", "words"), [((("a", 1),), "type 'a' is not of"), ((("r5n.large", -1),), "-1 inst")])
def test_counts_of_no_type_and_fewer_than_none_are_refused(counts: tuple[tuple[str, int], ...], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        capacity_of(BEYOND, counts)


def test_a_planner_process_is_asked_the_same() -> None:
    reach = replace(BEYOND, most_total=4)
    most, few = PlannerJob(reach, kind="MostWithinReach", quick=True), PlannerJob(BEYOND, FEW, kind="Capacity")
    assert [pickle.loads(pickle.dumps(one)) for one in (most, few)] == [most, few]  # noqa: S301
    assert done(most) == most_within_reach(reach, quick=True)
    assert done(few) == capacity_of(BEYOND, FEW)
    assert done(replace(few, quick=True)) == capacity_of(BEYOND, FEW, quick=True)
    with pytest.raises(ValueError, match="the capacity of no counts"):
        done(PlannerJob(BEYOND, kind="Capacity"))
