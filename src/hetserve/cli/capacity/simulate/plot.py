"""Draws a simulation: late queries by batch size, and utilisation by type."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes

from hetserve.cli.capacity.simulate.result import Simulated
from hetserve.cli.output.plots import COLOURS, new_figure, quiet, save
from hetserve.planning import summary
from hetserve.planning.formatting import qps_text


def draw(results: Sequence[Simulated], path: str) -> None:
    """Two panels per service. Raises OSError."""
    figure = new_figure(10, 4 * len(results))
    rows = figure.subplots(len(results), 2, squeeze=False)
    for result, (left, right) in zip(results, rows, strict=True):
        _late(result, left)
        _busy(result, right)
    save(figure, path)


def _late(result: Simulated, axes: Axes) -> None:
    rows = result.deciles()
    labels = [str(low) if low == high else f"{low}-{high}" for low, high, _, _ in rows]
    axes.bar(labels, [100 * late / queries for _, _, queries, late in rows], color=COLOURS[0])
    allowed = 100 - result.problem.slo.percentile
    axes.axhline(allowed, color="black", linestyle="--", linewidth=1, label=f"allowed over all: {allowed:g} %")
    what = "at" if result.found is None else "allowable:"
    name = f"{result.service}: {summary(tuple(result.counts.items()))}"
    axes.set_title(f"{name}\n{result.policy.name}, {what} {qps_text(result.rate)}", fontsize=10, loc="left")
    axes.set(xlabel="batch size by tenths of the queries (items)", ylabel="late queries (%)")
    axes.tick_params(axis="x", rotation=40)
    axes.legend(frameon=False)
    quiet(axes)


def _busy(result: Simulated, axes: Axes) -> None:
    busy = {name: share for name, share in result.utilisation().items() if result.counts[name]}
    labels = [f"{result.counts[name]} x {name}" for name in busy]
    bars = axes.bar(labels, [100 * share for share in busy.values()], color=COLOURS[2], width=0.5)
    axes.bar_label(bars, fmt="%.0f %%", padding=2)
    axes.set_title("utilisation of instances", fontsize=10, loc="left")
    axes.set(ylabel="time busy (%)", ylim=(0, 108), xlim=(-0.7, max(len(labels), 2) - 0.3))
    quiet(axes)
