"""Searching for the best configuration by trying configurations: the baselines that Kairos+ is measured against.

All methods share one evaluator interface (counts -> queries/s), one space, one budget of evaluations and, on
request, the sub-configuration pruning of Kairos's Algorithm 1, as the paper grants its competitors (section 8.3).
"""

from __future__ import annotations

from typing import Protocol, cast

from hetserve.planning.search.session import Evaluator, Session
from hetserve.planning.search.space import SearchSpace, search_space
from hetserve.planning.search.trace import Evaluation, SearchTrace
from hetserve.registry.search_methods import SEARCH_METHODS


class Method(Protocol):
    """What the function of a search method is; `hetserve.registry.search_methods` lists them."""

    def __call__(self, session: Session, seed: int, /) -> None:
        """Try configurations until the session is over."""
        ...


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
    if method not in SEARCH_METHODS:
        raise ValueError(f"search method {method!r} is unknown; there are: {', '.join(SEARCH_METHODS.names)}")
    if limit is not None and limit < 1:
        raise ValueError(f"limit {limit}: at least one evaluation is needed")
    run = cast("Method", SEARCH_METHODS[method].load())
    session = Session(space, evaluate, limit, prune=prune)
    run(session, seed)
    return SearchTrace(method, seed, tuple(session.evaluations), len(space), session.pruned)


__all__ = [
    "Evaluation",
    "Evaluator",
    "Method",
    "SearchSpace",
    "SearchTrace",
    "search",
    "search_space",
]
