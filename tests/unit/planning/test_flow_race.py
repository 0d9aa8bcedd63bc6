"""The race for the most throughput: whose neighbours run too, and what the winner gives away."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hetserve.planning.flow.programs.classes import class_table
from hetserve.planning.flow.programs.program import CEILING, FluidRates
from hetserve.planning.flow.search.judge import SEED, Judge, choosing_rate
from hetserve.planning.flow.search.throughput import Race, overtaken, race
from testing.planning import line, option, problem

TYPES = (option("fast", "1", line(20)), option("slow", "0.3", line(60)))
"""50 and 16.7 q/s; counts below are those of slow, then of fast."""
BUDGET = 3_000_000
Counts = tuple[int, ...]
Judged = Callable[[Callable[[Judge, Counts], float]], Judge]


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> Judged:
    """A judge by a rule that says the highest rate of counts; trials see those that hold 5 % less as close."""

    def replace(highest: Callable[[Judge, Counts], float]) -> Judge:
        def holds(judge: Judge, values: Counts, rate: float) -> bool:
            return rate < min(highest(judge, values), judge.fluid(values))

        def suggested(judge: Judge, values: Counts, rate: float) -> float:
            return rate if holds(judge, values, 0.95 * rate) else 0.0

        monkeypatch.setattr(Judge, "holds", holds)
        monkeypatch.setattr(Judge, "suggested", suggested)
        return real()

    return replace


def real(budget: str = "3") -> Judge:
    table = class_table(problem(TYPES, slo_ms=200, budget=budget))
    return Judge(table, choosing_rate(SEED), FluidRates(table, CEILING))


def raced(judge: Judge, *many: Counts) -> Race:
    run = Race(judge)
    for values in many:
        run.enter(values)
    return run


def mostly_one_fast(runner_up: float) -> Callable[[Judge, Counts], float]:
    """One fast instance among slow ones pools well."""
    return lambda judge, values: judge.fluid(values) * (runner_up if values[1] == 1 else 0.6)


def test_a_neighbour_of_a_runner_up_that_was_refused_by_little_wins(judged: Judged) -> None:
    run = raced(judged(mostly_one_fast(0.88)), (0, 3), (3, 1))
    assert run.best == (0, 3)
    assert run.entered[3, 1] == 0
    assert overtaken(run, BUDGET)
    assert run.best == (6, 1)
    assert run.rate == pytest.approx(0.88 * 150, rel=0.01)


def test_neighbours_of_what_was_refused_by_far_do_not_run(judged: Judged) -> None:
    run = raced(judged(mostly_one_fast(0.8)), (0, 3), (3, 1))
    assert not overtaken(run, BUDGET)
    assert list(run.entered) == [(0, 3), (3, 1)]


def test_a_neighbour_that_cannot_hold_more_by_the_runner_ups_share_does_not_run(judged: Judged) -> None:
    run = raced(judged(mostly_one_fast(0.88)), (0, 3), (3, 1))
    assert not overtaken(run, 1_900_000)
    assert list(run.entered) == [(0, 3), (3, 1)]


@pytest.mark.parametrize(("cap", "slow"), [(140, 9), (148, 10)], ids=["far from the fluid rate", "close to it"])
def test_instances_are_left_out_unless_the_rest_comes_close_to_its_fluid_rate(
    judged: Judged, cap: float, slow: int
) -> None:
    assert race(judged(lambda judge, values: cap), BUDGET).best == (slow, 0)  # noqa: ARG005


def test_a_trial_suggests_a_rate_only_to_what_fails_by_little() -> None:
    judge, values = real(), (9, 0)
    most = judge.highest(values, judge.fluid(values))
    close, far = 1.006 * most, 0.999 * judge.fluid(values)
    assert not judge.holds(values, close)
    assert not judge.holds(values, far)
    assert 0.97 * close <= judge.suggested(values, close) <= close
    assert judge.suggested(values, far) == 0
    assert judge.suggested(values, most / 2) == 0
