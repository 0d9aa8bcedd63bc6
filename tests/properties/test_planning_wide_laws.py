"""Laws of every planner that says it carries a load, over problems from all that the API accepts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from hetserve.base.units import QPS
from hetserve.planning import Problem, plan
from hetserve.planning.validate import problem_error
from testing.plan_laws import PLANNERS, broken_laws
from testing.wide_problems import Seeded, rising_loads, wide_problem

UNTRIED = tuple(name for name in PLANNERS if name != "flow")
LOADS = 3


@dataclass(frozen=True, slots=True)
class Drawn:
    """A source of figures that shrink."""

    draw: st.DrawFn

    def whole(self, low: int, high: int) -> int:
        return self.draw(st.integers(low, high))

    def real(self, low: float, high: float) -> float:
        return self.draw(st.floats(low, high))


@st.composite
def wide(draw: st.DrawFn, most_types: int = 12) -> tuple[Problem, Sequence[float]]:
    """A problem and rising loads."""
    source = Drawn(draw)
    problem = wide_problem(source, most_types=most_types)
    return problem, rising_loads(source, problem, LOADS)


@settings(deadline=None, max_examples=examples(80))
@given(wide())
def test_plans_without_trials_keep_the_laws(asked: tuple[Problem, Sequence[float]]) -> None:
    problem, loads = asked
    assert not list(broken_laws(problem, loads, UNTRIED))


@pytest.mark.deep
@settings(deadline=None, max_examples=examples(40))
@given(wide(most_types=3))
def test_tried_plans_keep_the_laws(asked: tuple[Problem, Sequence[float]]) -> None:
    problem, loads = asked
    assert not list(broken_laws(problem, loads, ("flow",)))


def seeded(seed: int | str, most_types: int = 12, loads: int = LOADS) -> tuple[Problem, tuple[float, ...]]:
    source = Seeded(Random(seed))  # noqa: S311
    problem = wide_problem(source, most_types=most_types)
    return problem, rising_loads(source, problem, loads)


BROKE = (
    ("wide-9", 12),
    ("wide-5", 6),
    ("wide-15", 12),
    ("wide-38", 6),
    ("wide-204", 12),
    ("wide-216", 12),
    ("wide-209", 6),
    ("wide-302", 6),
    ("51907-8", 12),
    ("51907-146", 12),
    ("51907-163", 12),
    ("51907-99", 12),
    ("51907-124", 12),
    ("51907-142", 12),
)
"""Seeds and most types of problems on which some planner broke a law once, on 4 loads."""


@pytest.mark.deep
@pytest.mark.parametrize("broke", BROKE)
def test_what_broke_a_law_once_keeps_them_all(broke: tuple[str, int]) -> None:
    problem, loads = seeded(*broke, loads=4)
    assert not list(broken_laws(problem, loads))


def test_a_trickle_is_carried_by_two_cheap_instances_where_queries_meet_one_busy_by_chance() -> None:
    problem, loads = seeded("51907-124", loads=4)
    assert plan(replace(problem, load=QPS(loads[1]))).counts == (("a", 0), ("b", 2), ("c", 0))


@pytest.mark.parametrize("seed", range(20))
def test_seeded_problems_are_valid_and_their_loads_rise(seed: int) -> None:
    problem, loads = seeded(seed)
    assert problem_error(problem) is None
    assert list(loads) == sorted(loads)
    assert seeded(seed) == (problem, loads)
