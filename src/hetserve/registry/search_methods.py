"""The search methods."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from hetserve.registry.members import Member, Registry


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchMember(Member):
    """Its function is a `hetserve.planning.search.Method`.

    needs: module of an optional extra; None: none.
    """

    needs: str | None = None


SEARCH_METHODS: Final = Registry(
    SearchMember(
        name="random",
        where="hetserve.planning.search.methods:random_search",
        about="tries configurations in a random order",
    ),
    SearchMember(
        name="annealing",
        where="hetserve.planning.search.methods:annealing",
        about="walks to neighbours, at first also to worse ones",
    ),
    SearchMember(
        name="genetic",
        where="hetserve.planning.search.methods:genetic",
        about="breeds configurations from the best ones",
    ),
    SearchMember(
        name="bayesian",
        where="hetserve.planning.search.bayesian:run",
        about="tries where a Gaussian process expects the largest improvement",
        needs="sklearn",
    ),
)
