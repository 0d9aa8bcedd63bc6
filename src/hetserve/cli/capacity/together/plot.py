"""Draws services played together: late queries beside what is allowed, and the stretch that each met."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes

from hetserve.cli.capacity.together.play import PlayedService
from hetserve.cli.capacity.together.result import late_share, stretch
from hetserve.cli.output.plots import COLOURS, new_figure, quiet, save


def draw(results: Sequence[PlayedService], path: str) -> None:
    """Two panels. Raises OSError."""
    figure = new_figure(max(9.0, 3 + 1.6 * len(results)), 4)
    left, right = figure.subplots(1, 2)
    names = [result.planned.service.metadata.name for result in results]
    _late(results, names, left)
    _stretch(results, names, right)
    save(figure, path)


def _late(results: Sequence[PlayedService], names: Sequence[str], axes: Axes) -> None:
    for holds, colour, label in ((True, COLOURS[2], "the SLO holds"), (False, COLOURS[1], "it does not hold")):
        shown = {k: 100 * late_share(result) for k, result in enumerate(results) if result.holds is holds}
        if shown:
            bars = axes.bar(list(shown), list(shown.values()), color=colour, width=0.6, label=label)
            axes.bar_label(bars, fmt="%.2f %%", padding=2, fontsize=8)
    places = np.arange(len(names))
    allowed = [100 - result.planned.problem.slo.percentile for result in results]
    axes.hlines(allowed, places - 0.4, places + 0.4, color="black", linestyle="--", linewidth=1, label="allowed")
    most = max(*allowed, *(100 * late_share(result) for result in results))
    _finish(axes, names, "late queries, of all that came", "late queries (%)", most)


def _stretch(results: Sequence[PlayedService], names: Sequence[str], axes: Axes) -> None:
    places, width, highest = np.arange(len(names)), 0.27, 1.0
    shades = (COLOURS[0], COLOURS[5], COLOURS[3])
    for k, (figure, label) in enumerate((("mean", "mean"), ("p99", "99 %"), ("most", "most"))):
        heights = [stretch(result)[figure] or 0.0 for result in results]
        bars = axes.bar(places + (k - 1) * width, heights, width, color=shades[k], label=label)
        axes.bar_label(bars, fmt="%.2f", padding=2, fontsize=7)
        highest = max(highest, *heights)
    _finish(axes, names, "stretch: service time over that of an instance alone", "stretch", highest)


def _finish(axes: Axes, names: Sequence[str], title: str, label: str, highest: float) -> None:
    axes.set_xticks(range(len(names)), names, rotation=20, ha="right")
    axes.set_title(title, fontsize=10, loc="left")
    # Room for the legend above the bars.
    axes.set(ylabel=label, ylim=(0, 1.3 * highest))
    axes.legend(frameon=False, ncols=3, loc="upper left", fontsize=8)
    quiet(axes)
