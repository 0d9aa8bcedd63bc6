"""Draws how services followed a load: the load, instances by type, and late queries."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes

from hetserve.cli.capacity.autoscale.result import Followed
from hetserve.cli.output.plots import COLOURS, new_figure, quiet, save

_HOUR = 3600
_MINUTE = 60


def draw(results: Sequence[Followed], path: str) -> None:
    """Three panels per service. Raises OSError."""
    figure = new_figure(10, 6.5 * len(results))
    rows = figure.subplots(3 * len(results), 1, squeeze=False, sharex=True)[:, 0]
    for number, result in enumerate(results):
        load, instances, late = rows[3 * number : 3 * number + 3]
        _load(result, load)
        _instances(result, instances)
        _late(result, late)
    rows[-1].set(xlabel="time of the trace (h)")
    save(figure, path)


def _load(result: Followed, axes: Axes) -> None:
    queries = result.served.by_minute[:, 0]
    hours = (result.course.begin + _MINUTE * np.arange(len(queries))) / _HOUR
    axes.plot(hours, queries / _MINUTE, color=COLOURS[0], linewidth=1)
    share = result.served.late_share
    title = f"{result.name}: ${result.course.dollars:.4g}, {share:.2%} late, {result.changes} changes of the plan"
    axes.set_title(title, fontsize=10, loc="left")
    axes.set(ylabel="load (q/s)")
    quiet(axes)


def _instances(result: Followed, axes: Axes) -> None:
    """Those that serve, stacked by type; the line: all that are paid."""
    course = result.course
    spans = course.fleet.spans
    moments = {course.begin, course.end, *(s.launched for s in spans), *(s.ready for s in spans)}
    edges = np.array(sorted(t for t in (*moments, *(s.left for s in spans)) if course.begin <= t <= course.end))
    base, paid = np.zeros(len(edges)), np.zeros(len(edges))
    for colour, option in enumerate(result.setting.problem.types):
        serving = np.zeros(len(edges))
        for span in (s for s in spans if s.type == option.name):
            serving += (edges >= span.ready) & (edges < span.left)
            paid += (edges >= span.launched) & (edges < span.left)
        if serving.any():
            shade = COLOURS[colour % len(COLOURS)]
            axes.fill_between(
                edges / _HOUR, base, base + serving, step="post", label=option.name, color=shade, linewidth=0, alpha=0.8
            )
        base = base + serving
    axes.step(edges / _HOUR, paid, where="post", color="black", linewidth=0.8, label="paid")
    axes.set(ylabel="instances")
    axes.legend(frameon=False, ncols=4, fontsize=8)
    quiet(axes)


def _late(result: Followed, axes: Axes) -> None:
    queries, late = result.served.by_minute.T
    hours = (result.course.begin + _MINUTE * np.arange(len(queries))) / _HOUR
    axes.plot(hours, 100 * late / np.maximum(queries, 1), color=COLOURS[1], linewidth=0.8)
    allowed = 100 - result.setting.problem.slo.percentile
    axes.axhline(allowed, color="black", linestyle="--", linewidth=1, label=f"allowed over all: {allowed:g} %")
    axes.set(ylabel="late by minute (%)")
    axes.legend(frameon=False, fontsize=8)
    quiet(axes)
