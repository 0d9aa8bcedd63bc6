from __future__ import annotations

import numpy as np
import pytest

from hetserve.planning.plan import Counts
from hetserve.planning.search import SearchSpace, search, search_space
from hetserve.planning.search.bayesian import expected_improvement
from hetserve.registry.planners import SEARCH_METHODS
from testing.planning import kairos_types, problem


def a_space(side: int = 6) -> SearchSpace:
    """Every pair (a, b) with a + b at most `side` and a at least 1."""
    pairs = [(a, b) for a in range(1, side + 1) for b in range(side + 1 - a)]
    return SearchSpace(("a", "b"), np.array(pairs, dtype=np.int64))


def growing(counts: Counts) -> float:
    """More instances never hold less; best where all is spent on a."""
    a, b = (n for _, n in counts)
    return 10.0 * a + 3.0 * b


@pytest.mark.parametrize("method", SEARCH_METHODS.names)
@pytest.mark.parametrize("prune", [True, pytest.param(False, marks=pytest.mark.deep)])
def test_every_method_ends_with_the_best_of_the_whole_space(method: str, prune: bool) -> None:
    trace = search(a_space(), growing, method, seed=3, prune=prune)
    assert dict(trace.best.counts) == {"a": 6, "b": 0}
    assert len(trace.evaluations) + trace.pruned == trace.space


@pytest.mark.parametrize("method", SEARCH_METHODS.names)
def test_no_method_evaluates_twice_or_more_than_it_may(method: str) -> None:
    asked: list[Counts] = []

    def counting(counts: Counts) -> float:
        asked.append(counts)
        return growing(counts)

    trace = search(a_space(), counting, method, limit=9, seed=1, prune=False)
    assert len(asked) == len(set(asked)) == len(trace.evaluations) == 9


@pytest.mark.parametrize("method", SEARCH_METHODS.names)
def test_a_search_is_repeated_by_its_seed(method: str) -> None:
    first, again = (search(a_space(), growing, method, limit=8, seed=5) for _ in range(2))
    assert first == again
    assert any(search(a_space(), growing, method, limit=8, seed=s).evaluations != first.evaluations for s in (6, 7, 8))


@pytest.mark.parametrize("method", SEARCH_METHODS.names)
def test_a_space_of_one_configuration_is_evaluated_once(method: str) -> None:
    trace = search(SearchSpace(("a",), np.array([[2]], dtype=np.int64)), lambda _: 0.0, method)
    assert [e.qps for e in trace.evaluations] == [0.0]


@pytest.mark.parametrize("method", SEARCH_METHODS.names)
def test_pruned_configurations_are_never_evaluated(method: str) -> None:
    trace = search(a_space(), growing, method, seed=2)
    for i, evaluation in enumerate(trace.evaluations):
        for earlier in trace.evaluations[:i]:
            pairs = zip(evaluation.counts, earlier.counts, strict=True)
            assert not all(n <= m for (_, n), (_, m) in pairs), f"{evaluation} lies below {earlier}: a wasted try"


@pytest.mark.deep
def test_the_bayesian_search_finds_a_peak_sooner_than_chance() -> None:
    def peak(counts: Counts) -> float:
        a, b = (n for _, n in counts)
        return 300.0 - (a - 7) ** 2 - (b - 4) ** 2

    def tries(method: str) -> list[int]:
        traces = [search(a_space(14), peak, method, limit=25, seed=s, prune=False) for s in range(4)]
        return [trace.evaluations_until(300.0) or 99 for trace in traces]

    assert max(tries("bayesian")) <= 25, "the peak was not found"
    assert sum(n > 25 for n in tries("random")) >= 2, "chance finds it as soon: the model guides nothing"


def test_a_trace_tells_how_soon_a_rate_was_reached() -> None:
    trace = search(a_space(), growing, "random", seed=0, prune=False)
    assert trace.best.qps == 60.0
    assert trace.evaluations_until(60.0) == trace.evaluations.index(trace.best) + 1
    assert trace.evaluations_until(61.0) is None


def test_expected_improvement_is_zero_for_certain_losers_and_the_gain_for_certain_winners() -> None:
    certain = expected_improvement(np.array([1.0, 5.0]), np.zeros(2), 3.0)
    assert certain.tolist() == [0.0, 2.0]
    assert expected_improvement(np.array([1.0]), np.array([1.0]), 3.0)[0] > 0


def test_the_space_of_a_problem_is_what_the_budget_buys_with_a_base() -> None:
    space = search_space(problem(kairos_types()))
    assert len(space) > 1
    assert space.find(tuple(space.counts[0].tolist())) == 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: search(a_space(), growing, "tabu"), "search method 'tabu' is unknown"),
        (lambda: search(a_space(), growing, "random", limit=0), "limit 0"),
        (lambda: search(a_space(), lambda _: float("nan"), "random"), "the evaluator returned nan"),
        (lambda: SearchSpace(("a",), np.zeros((0, 1), dtype=np.int64)), "needs configurations"),
        (lambda: SearchSpace(("a",), np.array([[1], [1]], dtype=np.int64)), "every configuration once"),
    ],
)
def test_bad_input_is_named(call: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()  # type: ignore[operator]
