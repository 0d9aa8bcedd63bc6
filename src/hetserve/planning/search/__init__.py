"""Search methods that try configurations: the baselines of Kairos+ (section 8.3).

All share one evaluator, one space, one limit and, on request, the pruning of Kairos's Algorithm 1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from hetserve.planning.plan import Evaluator
from hetserve.planning.search.session import Evaluation, SearchSession, SearchSpace, SearchTrace, search_space
from hetserve.registry.planners import SEARCH_METHODS


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

    evaluate: queries/s of a configuration. limit: most evaluations, None: no limit. prune: leave out sub-configurations
    of what was evaluated; under noise the best may be among them. Raises ValueError for an unknown method, a limit
    below 1, or an evaluator that returns no rate.
    """
    if method not in SEARCH_METHODS:
        raise ValueError(f"search method {method!r} is unknown; there are: {', '.join(SEARCH_METHODS.names)}")
    if limit is not None and limit < 1:
        raise ValueError(f"limit {limit}: at least one evaluation is needed")
    run = cast("Callable[[SearchSession, int], None]", SEARCH_METHODS[method].load())
    session = SearchSession(space, evaluate, limit, prune=prune)
    run(session, seed)
    return SearchTrace(method, seed, tuple(session.evaluations), len(space), session.pruned)


__all__ = [
    "Evaluation",
    "Evaluator",
    "SearchSpace",
    "SearchTrace",
    "search",
    "search_space",
]
