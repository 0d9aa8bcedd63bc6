"""What the choosing trials find is said only as far as the proving trials, with other draws, confirm it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hetserve.planning import Plan, plan
from hetserve.planning.flow.search.judge import Judge
from hetserve.simulation.allowable import RateTrial
from testing.planning import line, min_cost, option, problem

TYPES = (option("fast", "1", line(20)), option("slow", "0.3", line(60)))
Holds = Callable[[Judge, tuple[int, ...], float], bool]
Counts = tuple[int, ...]


@pytest.fixture
def proof(monkeypatch: pytest.MonkeyPatch) -> Callable[[Holds], None]:
    """Replaces the proving trials; the choosing ones pass by luck whatever is below the fluid rate."""

    def replace(holds: Holds) -> None:
        def either(judge: Judge, values: Counts, rate: float) -> bool:
            if rate >= judge.fluid(values):
                return False
            held = holds(judge, values, rate) if judge.effort.reserve is None else True
            judge._made[values, rate] = RateTrial(rate, (), 0.0, passed=held)
            return held

        monkeypatch.setattr(Judge, "holds", either)

    return replace


def least() -> Plan:
    return plan(min_cost(TYPES, 40, slo_ms=200), "flow")


def most() -> Plan:
    return plan(problem(TYPES, slo_ms=200, budget="3"), "flow")


def test_a_least_cost_found_by_luck_is_not_the_plan(proof: Callable[[Holds], None]) -> None:
    proof(lambda judge, values, rate: True)  # noqa: ARG005
    assert least().cost == 900_000
    proof(lambda judge, values, rate: rate < 0.7 * judge.fluid(values))
    made = least()
    assert made.feasible, made.message
    assert made.cost > 900_000
    assert made.held_qps == pytest.approx(40)
    assert sum(flow.qps for flow in made.flow) == pytest.approx(40)


def test_the_rate_that_is_said_is_the_proved_one(proof: Callable[[Holds], None]) -> None:
    proof(lambda judge, values, rate: rate < 0.5 * judge.fluid(values))
    made = most()
    assert made.bound_qps is not None
    assert made.held_qps is not None
    assert 0.45 * made.bound_qps < made.held_qps < 0.5 * made.bound_qps


@pytest.mark.parametrize("asked", [most, least])
def test_what_no_trial_confirms_is_no_plan(proof: Callable[[Holds], None], asked: Callable[[], Plan]) -> None:
    proof(lambda judge, values, rate: False)  # noqa: ARG005
    made = asked()
    assert not made.feasible
    assert made.reason in {"NoTypeMeetsSLO", "CapacityTooLow"}
    assert "in simulation" in made.message


@pytest.mark.deep
def test_a_plan_of_the_papers_that_just_holds_is_proved_by_longer_trials() -> None:
    """One instance is late by 0.983 of what is allowed: 240,000 queries do not tell, and two cost twice as much."""
    made = plan(min_cost([option("one", "1", line(10))], 43.2, slo_ms=34), "flow")
    assert dict(made.counts) == {"one": 1}
    assert made.tried


@pytest.mark.parametrize("asked", [most, least])
def test_choosing_and_proving_share_no_draw(monkeypatch: pytest.MonkeyPatch, asked: Callable[[], Plan]) -> None:
    drawn: dict[bool, set[int]] = {True: set(), False: set()}
    holds = Judge.holds

    def noted(judge: Judge, values: Counts, rate: float) -> bool:
        drawn[judge.effort.reserve is None] |= {*judge.effort.seeds}
        return holds(judge, values, rate)

    monkeypatch.setattr(Judge, "holds", noted)
    assert asked().feasible
    assert len(drawn[True]) >= 3
    assert not drawn[True] & drawn[False]


def test_a_quick_plan_asks_no_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(Judge, "holds")
    for given in (problem(TYPES, slo_ms=200, budget="3"), min_cost(TYPES, 40, slo_ms=200)):
        assert plan(given, "flow", quick=True).tried is False
