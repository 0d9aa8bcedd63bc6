"""What the judge of flow says of counts: what a plan of them says of itself."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hetserve.base.units import QPS
from hetserve.demand import BatchMix
from hetserve.planning import plan
from hetserve.planning.plan import Trial
from hetserve.planning.registry import has_judge, trial
from testing.planning import kairos_types, line, min_cost, problem

MIX = BatchMix.of((batch, 1 / batch) for batch in range(50, 500, 50))
MOST = problem(kairos_types(), mix=MIX, budget="1.2", planner="flow")
LEAST = min_cost(kairos_types(), 60.0, mix=MIX, planner="flow")


@pytest.mark.deep
def test_a_plan_and_the_judge_say_the_same_of_its_counts() -> None:
    assert trial(MOST, plan(MOST).counts).held == pytest.approx(plan(MOST).held_qps, rel=0.02)
    assert trial(LEAST, plan(LEAST).counts) == Trial(holds=True)


def test_counts_that_carry_too_little_do_not_hold_and_more_hold_more() -> None:
    one = tuple((option.name, int(option.name == "t3.xlarge")) for option in LEAST.types)
    assert trial(LEAST, one) == Trial(holds=False)
    many = tuple((name, n + 2) for name, n in plan(MOST).counts)
    assert (trial(MOST, many).held or 0) > (plan(MOST).held_qps or 0)


def test_too_many_instances_are_not_tried() -> None:
    assert trial(MOST, tuple((option.name, 10_000) for option in MOST.types)) == Trial()


def test_a_planner_without_a_judge_tries_nothing() -> None:
    bare = problem(kairos_types(), planner="kairos")
    assert not has_judge(bare)
    with pytest.raises(ValueError, match="planner kairos tries nothing"):
        trial(bare, plan(bare).counts)


def test_counts_that_cannot_serve_the_largest_batch_hold_nothing() -> None:
    short = problem([replace(kairos_types()[0], profile=line(4, 0.3, max_batch=100))], mix=MIX, planner="flow")
    assert trial(short, (("g4dn.xlarge", 3),)) == Trial(held=QPS(0.0))
