"""The best configurations of a budget by Kairos's bound: of all if they are at most a million, else of good ones."""

from __future__ import annotations

from hetserve.planning.kbest.best import Ranking, Space, best_configurations, grid_of, list_all, space_of

__all__ = ["Ranking", "Space", "best_configurations", "grid_of", "list_all", "space_of"]
