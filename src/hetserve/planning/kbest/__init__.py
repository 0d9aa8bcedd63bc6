"""The best configurations of a budget by Kairos's bound: of all if they are at most a million, else of good ones."""

from __future__ import annotations

from hetserve.planning.kbest.best import Ranking, best_configurations, cheapest_reaching, list_all
from hetserve.planning.kbest.grid import Grid, grid_of
from hetserve.planning.kbest.space import Space, space_of

__all__ = ["Grid", "Ranking", "Space", "best_configurations", "cheapest_reaching", "grid_of", "list_all", "space_of"]
