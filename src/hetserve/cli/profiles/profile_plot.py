"""Draws measured samples and their fit."""

from __future__ import annotations

from hetserve.cli.output.plots import COLOURS, new_figure, save
from hetserve.profiles.fit import Fit
from hetserve.profiles.samples import Samples

_MOST_POINTS = 20_000


def draw(samples: Samples, fit: Fit, title: str, path: str) -> None:
    """Raises OSError."""
    figure = new_figure(8, 5)
    axes = figure.add_subplot()
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
    save(figure, path)


def _top(points: list[tuple[int, float]], fit: Fit) -> float:
    """Upper end of the axis [ms], without single cold starts."""
    highest = max(
        max(entry.quantiles["p99"] if entry.quantiles is not None else entry.mean for entry in fit.entries) * 1e3,
        fit.line.at(fit.entries[-1].batch) * 1e3,
    )
    return min(max(latency for _, latency in points), 1.2 * highest) * 1.08
