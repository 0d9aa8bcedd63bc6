"""Plots of the report: what share of the queries is in time against how accurate they are answered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import matplotlib as mpl
from benchmarks.reporting import Json
from benchmarks.superserve.results import KEPT

mpl.use("Agg")
import matplotlib.pyplot as plt

_OURS = {"rate-fit": "#c8553d", "slackfit": "#2f5d8a", "max-batch": "#7fb069", "max-accuracy": "#c9b458"}


def scatter(name: str, cells: Json, policies: Sequence[str]) -> None:
    """NAME.png: one panel of each cell, three in a row."""
    KEPT.folder.mkdir(parents=True, exist_ok=True)
    rows = -(-len(cells) // 3)
    fig, grid = plt.subplots(rows, 3, figsize=(9.0, 2.4 * rows), layout="constrained", sharex=True, sharey=True)
    for axis, (title, cell) in zip(grid.flat, cells.items(), strict=False):
        _panel(axis, title, cell, policies)
    fig.supxlabel("accuracy of the queries in time [%]")
    fig.supylabel("share of the queries in time")
    fig.savefig(KEPT.folder / f"{name}.png", dpi=120, metadata={"Software": None})
    plt.close(fig)


def _panel(axis: Any, title: str, cell: Json, policies: Sequence[str]) -> None:
    for policy in policies:
        colour, size = _OURS.get(policy, "#9aa0a6"), 40 if policy in _OURS else 18
        axis.scatter(cell[policy]["accuracy"], cell[policy]["attainment"], s=size, color=colour, zorder=3)
        axis.annotate(policy, (cell[policy]["accuracy"], cell[policy]["attainment"]), fontsize=5, rotation=-35,
                      va="top", xytext=(2, -3), textcoords="offset points")  # fmt: skip
    axis.set_title(title, fontsize=8)
    axis.spines[["top", "right"]].set_visible(False)
    axis.grid(color="#e4e4e4", linewidth=0.8)
