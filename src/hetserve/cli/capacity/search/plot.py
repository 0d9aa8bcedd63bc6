"""Draws searches: the best found after each evaluation."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from hetserve.cli.capacity.search.result import Searched
from hetserve.cli.output.plots import COLOURS, new_figure, quiet, save
from hetserve.planning.formatting import latency_text


def draw(results: Sequence[Searched], path: str) -> None:
    """One panel per service. Raises OSError."""
    figure = new_figure(8, 4.6 * len(results))
    for result, axes in zip(results, figure.subplots(len(results), 1, squeeze=False)[:, 0], strict=True):
        _panel(result, axes)
    save(figure, path)


def _panel(result: Searched, axes: Axes) -> None:
    for number, trace in enumerate(result.traces):
        colour = COLOURS[number % len(COLOURS)]
        at = list(range(1, len(trace.tried) + 1))
        best = trace.best_so_far
        label = f"{trace.method}: best at evaluation {trace.best + 1} of {len(at)}"
        axes.step(at, best, where="post", color=colour, linewidth=1.6, label=label)
        axes.plot(at, [rate for _, rate in trace.tried], ".", color=colour, markersize=4, alpha=0.5)
        axes.plot(trace.best + 1, best[trace.best], "o", color=colour, markersize=7)
    slo = result.problem.slo
    axes.set_title(
        f"{result.service} under {result.policy}: {slo.percentile:.10g} % within {latency_text(slo.latency)}\n"
        f"lines: best so far, dots: each configuration tried",
        fontsize=10,
        loc="left",
    )
    axes.set(xlabel="configurations evaluated", ylabel="allowable load (queries/s)")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_ylim(0, 1.08 * max(result.best_rate, 1e-9))
    axes.legend(frameon=False, fontsize=8, loc="lower right")
    quiet(axes)
