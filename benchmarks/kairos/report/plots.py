"""One look for all plots."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

import matplotlib as mpl
from benchmarks.kairos.report.results import KEPT

mpl.use("Agg")
import matplotlib.pyplot as plt

COLOURS: Final = {
    "homogeneous": "#9aa0a6",
    "fcfs": "#c9b458",
    "threshold": "#7fb069",
    "clockwork-earliest": "#a5c8e4",
    "clockwork-least-wait": "#4a90c2",
    "kairos": "#2f5d8a",
    "hetserve": "#c8553d",
    "bound": "#444444",
}


@contextmanager
def figure(name: str, wide: float = 7.5, high: float = 3.6, columns: int = 1) -> Iterator[Any]:
    """Axes (a list for several columns, five in a row at most) of NAME.png; wide, high (of a row): inches."""
    KEPT.folder.mkdir(parents=True, exist_ok=True)
    rows, across = -(-columns // 5), min(columns, 5)
    if rows > 1:
        across = -(-columns // rows)
    fig, grid = plt.subplots(rows, across, figsize=(wide, high * rows), layout="constrained", squeeze=False)
    axes = list(grid.flat)
    for spare in axes[columns:]:
        spare.set_visible(False)
    try:
        yield axes[:columns] if columns > 1 else axes[0]
        for axis in fig.axes:
            axis.spines[["top", "right"]].set_visible(False)
            axis.set_axisbelow(True)
            axis.grid(axis="y", color="#e4e4e4", linewidth=0.8)
        fig.savefig(KEPT.folder / f"{name}.png", dpi=120, metadata={"Software": None})
    finally:
        plt.close(fig)


def bars(axis: Any, groups: Sequence[str], series: Mapping[str, Sequence[float]], keys: Mapping[str, str]) -> None:
    """Grouped bars. series: label -> one value per group; keys: label -> name in COLOURS."""
    width = 0.8 / len(series)
    for i, (label, values) in enumerate(series.items()):
        at = [g - 0.4 + width * (i + 0.5) for g in range(len(groups))]
        axis.bar(at, values, width * 0.94, label=label, color=COLOURS[keys[label]])
    axis.set_xticks(range(len(groups)), groups)
