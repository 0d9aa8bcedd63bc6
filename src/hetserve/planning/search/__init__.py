"""Searching for the best configuration by trying configurations: the baselines that Kairos+ is measured against.

All methods share one evaluator interface (counts -> queries/s), one space, one budget of evaluations and, on
request, the sub-configuration pruning of Kairos's Algorithm 1, as the paper grants its competitors (section 8.3).
"""

from __future__ import annotations

from importlib import import_module
from typing import Final

from hetserve.planning.plan import Evaluator
from hetserve.planning.search.session import Session
from hetserve.planning.search.space import SearchSpace, search_space
from hetserve.planning.search.trace import Evaluation, SearchTrace

_MODULES: Final = {
    "random": "random_search",
    "annealing": "annealing",
    "genetic": "genetic",
    "bayesian": "bayesian",
}
METHODS: Final = tuple(_MODULES)


def search(
    space: SearchSpace,
    evaluate: Evaluator,
    method: str,
    *,
    limit: int | None = None,
    seed: int = 0,
    prune: bool = True,
) -> SearchTrace:
    """Every evaluation that a method makes, in order.

    evaluate: queries/s of a configuration. limit: most evaluations, None: until every configuration has been
    evaluated or pruned. prune: leave out sub-configurations of what was evaluated, since fewer instances of every
    type are not expected to serve more (under noise they can, so the best may be missed).
    Raises ValueError for an unknown method, a limit below 1, or an evaluator that returns what is no rate.
    """
    if method not in _MODULES:
        raise ValueError(f"search method {method!r} is unknown; there are: {', '.join(METHODS)}")
    if limit is not None and limit < 1:
        raise ValueError(f"limit {limit}: at least one evaluation is needed")
    # Late: the Bayesian one needs scikit-learn, which costs a second to import.
    run = import_module(f"{__name__}.{_MODULES[method]}").run
    session = Session(space, evaluate, limit, prune=prune)
    run(session, seed)
    return SearchTrace(method, seed, tuple(session.evaluations), len(space), session.pruned)


__all__ = [
    "METHODS",
    "Evaluation",
    "Evaluator",
    "SearchSpace",
    "SearchTrace",
    "search",
    "search_space",
]
