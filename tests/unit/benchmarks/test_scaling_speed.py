"""The benchmark of a decision's speed: the quick plan is the one that the operator asks for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from benchmarks.scaling import speed

from hetserve.planning import Plan, Problem, plan


def test_the_first_plan_is_of_any_counts_and_the_plan_of_more_loses_no_instance(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[Problem] = []

    def planned(problem: Problem, **how: Any) -> Plan:
        if how.get("quick"):
            asked.append(problem)
        return plan(problem, quick=True)

    def once(work: Callable[[], object], _runs: int) -> list[float]:
        work()
        return [0.02]

    monkeypatch.setattr(speed, "plan", planned)
    monkeypatch.setattr(speed, "_times", once)
    monkeypatch.setattr(speed, "_LOADS", (10.0,))
    found = speed.measure(quick=True)

    first, more = asked
    assert [sum(option.min_instances for option in problem.types) > 0 for problem in (first, more)] == [False, True]
    assert all(option.running == 0 for option in first.types)
    assert (found["first"], found["plan"], found["types"]) == (0.02, 0.02, 4)


def test_the_page_has_a_row_for_each_and_says_which_was_never_measured() -> None:
    page = speed.describe({"decision": 0.0002, "first": 0.031, "plan": 0.029, "types": 4})
    assert "| quick first plan of 4 types, median | < 30 ms | 31.0 ms | **missed** |" in page
    assert "| quick plan of more instances of 4 types, median | < 30 ms | 29.0 ms | held |" in page
    before = speed.describe({"decision": 0.0002, "plan": 0.029, "types": 4})
    assert "| quick first plan of 4 types, median | < 30 ms | not measured | - |" in before
