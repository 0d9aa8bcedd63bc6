"""Draws measured samples and their fit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetserve.cli.output.plots import COLOURS, new_figure, quiet, save
from hetserve.profiles.fit import Fit
from hetserve.profiles.measurements import Samples
from hetserve.profiles.sharing_fit import FactorFit, ShareFit, SharingFit

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_POINTS = 20_000
_MOST_FACTORS = 16


def draw(samples: Samples, fit: Fit, title: str, path: str, sharing: SharingFit | None = None) -> None:
    """Raises OSError."""
    shares = sharing is not None and bool(sharing.share.runs)
    factors = sharing.factors if sharing is not None else ()
    panels = 1 + shares + bool(factors)
    figure = new_figure(8 if panels == 1 else 6.5 * panels, 5)
    _draw_latency(figure.add_subplot(1, panels, 1), samples, fit, title)
    if sharing is not None and shares:
        _draw_share(figure.add_subplot(1, panels, 2), sharing.share)
    if factors:
        _draw_factors(figure.add_subplot(1, panels, panels), factors)
    save(figure, path)


def _draw_latency(axes: Axes, samples: Samples, fit: Fit, title: str) -> None:
    points = [(batch, latency * 1e3) for batch, own in samples.by_batch.items() for latency in own]
    step = max(1, len(points) // _MOST_POINTS)
    shown = points[::step]
    batch_axis, latency_axis = zip(*shown, strict=True)
    axes.scatter(batch_axis, latency_axis, s=7, color="#9aa5b1", alpha=0.5, linewidths=0, label="samples")
    batches = [entry.batch for entry in fit.entries]
    axes.plot(
        batches, [entry.mean * 1e3 for entry in fit.entries], color=COLOURS[0], marker="o", markersize=3, label="mean"
    )
    spread = [entry for entry in fit.entries if entry.quantiles is not None]
    if spread:
        p99 = [entry.quantiles["p99"] * 1e3 for entry in spread if entry.quantiles is not None]
        axes.plot([entry.batch for entry in spread], p99, color=COLOURS[1], linewidth=1, label="p99")
    ends = [batches[0], batches[-1]]
    axes.plot(ends, [fit.line.at(batch) * 1e3 for batch in ends], color="black", linestyle="--", label="line")
    axes.set(title=f"{title}: {fit.kind}", xlabel="batch (items per query)", ylabel="latency (ms)")
    axes.set_ylim(bottom=0, top=_top(points, fit))
    axes.grid(visible=True, alpha=0.25)
    axes.legend(frameon=False)


def _draw_share(axes: Axes, fit: ShareFit) -> None:
    """Throughput by copies, with what the stated share and no limit at all would give."""
    stated = fit.stated / 1_000_000
    most = fit.runs[-1].copies
    line = [1 + (most - 1) * i / 60 for i in range(61)]
    axes.plot(line, line, color="#9aa5b1", linestyle=":", label="no limit")
    axes.plot(
        line,
        [min(k, 1 / stated) for k in line],
        color="black",
        linestyle="--",
        label=f"share {stated:g}: min(copies, {1 / stated:.2f})",
    )
    reached = [run.throughput for run in fit.runs]
    axes.errorbar(
        [run.copies for run in fit.runs],
        [one.value for one in reached],
        yerr=([one.value - one.low for one in reached], [one.high - one.value for one in reached]),
        color=COLOURS[0],
        marker="o",
        markersize=5,
        linestyle="none",
        capsize=3,
        label="measured, 95 %",
    )
    axes.set(
        title=f"copies at batch {fit.batch}",
        xlabel="copies on one GPU",
        ylabel="throughput (of one copy)",
        ylim=(0, None),
    )
    axes.set_xticks([run.copies for run in fit.runs])
    axes.grid(visible=True, alpha=0.25)
    axes.legend(frameon=False)


def _draw_factors(axes: Axes, fits: tuple[FactorFit, ...]) -> None:
    """Factor on each neighbour with its interval; the stated end is written beside."""
    shown = sorted(fits, key=lambda fit: (-fit.stated, fit.model, fit.batch))[:_MOST_FACTORS][::-1]
    axes.errorbar(
        [fit.factor.value for fit in shown],
        range(len(shown)),
        xerr=(
            [fit.factor.value - fit.factor.low for fit in shown],
            [fit.factor.high - fit.factor.value for fit in shown],
        ),
        color=COLOURS[1],
        marker="o",
        markersize=5,
        linestyle="none",
        capsize=3,
    )
    for row, fit in enumerate(shown):
        axes.annotate(
            f"{fit.stated / 1_000_000:g}",
            (fit.factor.high, row),
            xytext=(5, 0),
            textcoords="offset points",
            va="center",
        )
    axes.axvline(1, color="#9aa5b1", linestyle=":")
    axes.set_yticks(range(len(shown)), [f"{fit.model}, batch {fit.batch}" for fit in shown])
    axes.margins(x=0.25, y=0.1)
    left = "" if len(shown) == len(fits) else f": the greatest {len(shown)} of {len(fits)}"
    axes.set(title=f"others beside it{left}", xlabel="latency / latency alone, 95 %")
    quiet(axes, "x")


def _top(points: list[tuple[int, float]], fit: Fit) -> float:
    """Upper end of the axis [ms], without single cold starts."""
    highest = max(
        max(entry.quantiles["p99"] if entry.quantiles is not None else entry.mean for entry in fit.entries) * 1e3,
        fit.line.at(fit.entries[-1].batch) * 1e3,
    )
    return min(max(latency for _, latency in points), 1.2 * highest) * 1.08
