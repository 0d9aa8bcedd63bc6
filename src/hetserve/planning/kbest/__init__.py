"""The k best configurations of a budget by Kairos's bound, exact."""

from __future__ import annotations

from hetserve.planning.kbest.best import (
    Ranking,
    Reaching,
    best_configurations,
    cheapest_reaching,
    list_all,
    search_best,
)
from hetserve.planning.kbest.grid import Grid, grid_of
from hetserve.planning.kbest.space import Space, space_of

__all__ = [
    "Grid",
    "Ranking",
    "Reaching",
    "Space",
    "best_configurations",
    "cheapest_reaching",
    "grid_of",
    "list_all",
    "search_best",
    "space_of",
]
