"""A trial is made once in a process: what another problem asks again is answered from memory, and nothing else is."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from hetserve.base.units import MicroDollarsPerHour, Seconds
from hetserve.demand import BatchMix
from hetserve.dispatch import make_policy
from hetserve.planning import Problem, plan
from hetserve.planning.flow.programs.classes import class_table
from hetserve.planning.flow.programs.program import CEILING, FluidRates
from hetserve.planning.flow.search import judge
from hetserve.planning.flow.search.judge import Judge, Remembered, TrialEffort, choosing_cost, choosing_rate
from hetserve.planning.problem import LatencySlo
from hetserve.serving.system import System
from hetserve.simulation.allowable import RateTrial, TrialSetup
from hetserve.simulation.criteria import Pooled
from testing.planning import kairos_types, line, problem

MIX = BatchMix.of((batch, 1 / batch) for batch in range(50, 500, 50))
ASKED = problem(kairos_types(), mix=MIX, budget="1.2", planner="flow")
ANSWER = RateTrial(1.0, (0.0,), 0.0, passed=True)


@pytest.fixture(autouse=True)
def _nothing_known() -> Iterator[None]:
    judge.REMEMBERED.forget()
    yield
    judge.REMEMBERED.forget()


def slower_first(asked: Problem) -> Problem:
    first, *others = asked.types
    return replace(asked, types=(replace(first, profile=line(5, 0.31)), *others))


DECIDING: dict[str, Callable[[Problem], Problem]] = {
    "SLO": lambda asked: replace(asked, slo=LatencySlo(Seconds(asked.slo.latency * 1.01))),
    "percentile": lambda asked: replace(asked, slo=LatencySlo(asked.slo.latency, 98.0)),
    "mix": lambda asked: replace(asked, mix=BatchMix.of((batch, 1.0) for batch in range(50, 500, 50))),
    "policy": lambda asked: replace(asked, policy="kairos"),
    "profile": slower_first,
}
OTHER: dict[str, Callable[[Problem], Problem]] = {
    "budget": lambda asked: replace(asked, budget=MicroDollarsPerHour(2_000_000)),
    "service": lambda asked: replace(asked, service="other"),
    "prices": lambda asked: replace(
        asked, types=tuple(replace(one, price=MicroDollarsPerHour(one.price + 1)) for one in asked.types)
    ),
}


def questions(
    monkeypatch: pytest.MonkeyPatch, asked: Problem, effort: TrialEffort, counts: tuple[int, ...], rate: float
) -> list[Hashable]:
    """What the memory is asked for one trial."""
    heard: list[Hashable] = []

    def answer(question: Hashable, _make: Callable[[], RateTrial]) -> RateTrial:
        heard.append(question)
        return ANSWER

    monkeypatch.setattr(judge.REMEMBERED, "answer", answer)
    table = class_table(asked)
    Judge(table, effort, FluidRates(table, CEILING)).holds(counts, rate)
    return heard


def test_a_problem_that_asks_the_same_trials_makes_none(monkeypatch: pytest.MonkeyPatch) -> None:
    first = plan(ASKED)

    def never(*_: Any) -> RateTrial:
        raise AssertionError("a trial was made again")

    monkeypatch.setattr(TrialSetup, "at", never)
    again = plan(replace(ASKED, service="other"))
    assert first.feasible
    assert (again.counts, again.held_qps) == (first.counts, first.held_qps)


@pytest.mark.parametrize("change", DECIDING)
def test_what_decides_a_trial_makes_it_another(monkeypatch: pytest.MonkeyPatch, change: str) -> None:
    known = questions(monkeypatch, ASKED, choosing_rate(1), (1, 1, 1, 1), 5.0)
    assert len(known) == 1
    assert questions(monkeypatch, DECIDING[change](ASKED), choosing_rate(1), (1, 1, 1, 1), 5.0) != known


@pytest.mark.parametrize(
    ("effort", "counts", "rate"),
    [
        (choosing_rate(2), (1, 1, 1, 1), 5.0),
        (choosing_cost(1), (1, 1, 1, 1), 5.0),
        (replace(choosing_rate(1), queries=7000), (1, 1, 1, 1), 5.0),
        (choosing_rate(1), (2, 1, 1, 1), 5.0),
        (choosing_rate(1), (1, 1, 1, 1), 5.1),
    ],
)
def test_other_draws_counts_or_rates_are_another_trial(
    monkeypatch: pytest.MonkeyPatch, effort: TrialEffort, counts: tuple[int, ...], rate: float
) -> None:
    known = questions(monkeypatch, ASKED, choosing_rate(1), (1, 1, 1, 1), 5.0)
    assert questions(monkeypatch, ASKED, effort, counts, rate) != known


def test_service_times_that_policies_do_not_know_of_make_another_trial() -> None:
    profiles = {one.name: one.profile for one in ASKED.types}
    system = System.of(profiles, MIX.batches, ASKED.slo.latency)
    known = TrialSetup(system, {"t3.xlarge": 1}, make_policy("hetserve"), 99.0, Pooled())
    assert replace(known, system=system).fingerprint == known.fingerprint
    assert replace(known, system=system.slowed(np.full(len(profiles), 1.1))).fingerprint != known.fingerprint


@pytest.mark.parametrize("change", OTHER)
def test_what_no_query_sees_leaves_it_the_same(monkeypatch: pytest.MonkeyPatch, change: str) -> None:
    known = questions(monkeypatch, ASKED, choosing_rate(1), (1, 1, 1, 1), 5.0)
    assert questions(monkeypatch, OTHER[change](ASKED), choosing_rate(1), (1, 1, 1, 1), 5.0) == known


def test_the_memory_keeps_the_newest() -> None:
    memory, made = Remembered(most=2), list[str]()

    def ask(question: str) -> None:
        def make() -> RateTrial:
            made.append(question)
            return ANSWER

        assert memory.answer(question, make) is ANSWER

    for question in ("a", "b", "a", "c", "a", "b"):
        ask(question)
    assert made == ["a", "b", "c", "b"]
