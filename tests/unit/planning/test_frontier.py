"""Cost against load held: what several budgets buy."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from effort import spread
from hetserve.base.units import MicroDollarsPerHour
from hetserve.demand import BatchMix
from hetserve.planning import Plan, Problem, plan
from hetserve.planning.flow.frontier import BESIDE, FrontierPoint, budgets, frontier
from hetserve.planning.plan import EvaluatedConfiguration
from testing.planning import line, min_cost, option, problem

MIX = BatchMix.of([(1, 6), (10, 3), (40, 1)])
TYPES = option("fast", "0.5", line(5, 1)), option("slow", "0.1", line(10, 3))
OBJECTIVES = {
    "for a budget": problem(TYPES, slo_ms=100, mix=MIX, budget=MicroDollarsPerHour(1_200_000)),
    "for a load": min_cost(TYPES, 150, slo_ms=100, mix=MIX),
}


@pytest.fixture(scope="module", params=spread(tuple(OBJECTIVES), 1))
def drawn(request: pytest.FixtureRequest) -> tuple[Problem, Plan, tuple[FrontierPoint, ...]]:
    asked = OBJECTIVES[request.param]
    made = plan(asked)
    return asked, made, frontier(asked, made, points=4)


def column(points: Sequence[FrontierPoint], name: str) -> list[EvaluatedConfiguration]:
    return [one for point in points if (one := dict(point.planners)[name]) is not None]


def test_every_point_is_within_its_budget_and_below_the_ceiling(
    drawn: tuple[Problem, Plan, tuple[FrontierPoint, ...]],
) -> None:
    _, _, points = drawn
    for point in points:
        assert [name for name, _ in point.planners] == ["flow", *BESIDE]
        for _, one in point.planners:
            assert one is None or (one.candidate.cost <= point.budget and one.held <= point.ceiling)


def test_more_money_never_holds_less(drawn: tuple[Problem, Plan, tuple[FrontierPoint, ...]]) -> None:
    _, _, points = drawn
    held = [one.held for one in column(points, "flow")]
    assert held == sorted(held)
    assert [point.ceiling for point in points] == sorted(point.ceiling for point in points)


def test_the_plan_is_one_of_the_points(drawn: tuple[Problem, Plan, tuple[FrontierPoint, ...]]) -> None:
    asked, made, points = drawn
    [mine] = [dict(point.planners)["flow"] for point in points if point.budget == made.cost]
    assert mine is not None
    assert mine.candidate.cost <= made.cost
    assert mine.held >= (made.held_qps if asked.load is None else asked.load or 0)  # type: ignore[operator]


def test_it_ends_at_twice_the_money(drawn: tuple[Problem, Plan, tuple[FrontierPoint, ...]]) -> None:
    asked, made, points = drawn
    assert points[-1].budget == 2 * max(made.cost, asked.budget or 0)


@pytest.mark.deep
def test_each_point_is_reported_when_it_is_done() -> None:
    asked, told = OBJECTIVES["for a load"], list[str]()
    points = frontier(asked, plan(asked), points=2, done=told.append)
    assert told == [f"{point.budget / 1e6:.4g} $/h" for point in points]


def test_budgets_are_round_but_for_the_ends_and_the_plan() -> None:
    assert budgets(526_000, 5_000_000, (2_463_000,), 5) == (526_000, 1_640_000, 2_463_000, 3_880_000, 5_000_000)


@given(st.integers(1, 10**9), st.integers(0, 10**9), st.integers(2, 20), st.data())
def test_budgets_rise_and_hold_what_must_be_among_them(least: int, more: int, points: int, data: st.DataObject) -> None:
    wanted = data.draw(st.integers(least, least + more))
    found = budgets(least, least + more, (wanted,), points)
    assert list(found) == sorted(set(found))
    assert wanted in found
    assert len(found) <= points
    assert least <= found[0] <= found[-1] <= least + more
