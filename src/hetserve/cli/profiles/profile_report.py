"""What `hetserve profile fit` does: a profile of measurements as a manifest, a table with units, or a figure."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from pydantic import ValidationError
from rich.table import Table

from hetserve.api.manifest_errors import field_errors
from hetserve.api.model_profile import ModelProfile
from hetserve.base.csv_rows import MOST_BYTES
from hetserve.base.files import read_text, shown_name
from hetserve.base.units import format_ratio
from hetserve.cli.output import streams
from hetserve.cli.output.plots import COLOURS, draw_or_refuse, lying, new_figure, save
from hetserve.cli.output.streams import dump, refuse
from hetserve.cli.output.terminal import Block, grid, text_of
from hetserve.profiles.fit import Fit, MeasuredBatch, fit_samples, thinned
from hetserve.profiles.measurements import Measurements, Samples, read_measurements
from hetserve.profiles.sharing_fit import (
    Estimate,
    FactorFit,
    ShareFit,
    SharingFit,
    fit_sharing,
    share_source,
    sharing_fields,
)
from hetserve.profiles.spec import latency_of, milliseconds, profile_manifest
from hetserve.registry.choices import SHARING_MODES, SharingMode

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_NO_MEMORY = "no --gpu-memory: set gpuMemory in the profile; without it each instance takes all memory of a GPU"
_COLUMNS = ("min", "p50", "p90", "p99", "max")
_MOST_POINTS = 20_000
_MOST_FACTORS = 16


def run(  # noqa: PLR0917  options arrive by name
    samples: str,
    output: str,
    plot: str | None,
    kind: Any,
    sharing_mode: SharingMode | None,
    batch: int | None,
    keep_wild: bool,
    **profile: Any,
) -> None:
    """The command, with its options; profile: what the manifest says besides. Raises InputError."""
    model, instance_type = profile["model"], profile["instance_type"]
    title = f"{model} on {instance_type}"
    measured = read_measurements(read_text(samples, MOST_BYTES), shown_name(samples), model, instance_type)
    fitted = fit_samples(measured.alone, kind, keep_wild=keep_wild)
    sharing = _sharing(measured, sharing_mode, batch, keep_wild=keep_wild)
    manifest = _manifest(measured, fitted, sharing, profile)
    if plot is not None:
        draw_or_refuse(lambda: _draw(measured.alone, fitted, title, plot, sharing), plot)
    unshared = [_NO_MEMORY] if sharing and profile["gpu_memory"] is None else []
    for note in (*fitted.notes, *(sharing.notes if sharing else ()), *unshared):
        streams.note(note)
    table = output == "table"
    shown = text_of([_block(measured.alone, fitted, title, sharing)]) if table else dump([manifest], output, rows=True)
    click.echo(shown, nl=False)


def _sharing(
    measured: Measurements, mode: SharingMode | None, batch: int | None, *, keep_wild: bool
) -> SharingFit | None:
    """Fit of copies and neighbours, if they were measured; exits with all errors."""
    if mode is not None:
        return fit_sharing(measured, mode, batch, keep_wild=keep_wild)
    if measured.copied or measured.neighboured:
        refuse(
            f"{measured.name} has runs of copies or neighbours: say how they shared the GPU, "
            f"--sharing-mode {' or '.join(SHARING_MODES)}"
        )
    if batch is not None:
        refuse(f"--batch {batch}: is for the compute share; say --sharing-mode, too, or leave it out")
    if measured.counters:
        names = ", ".join(measured.counters)
        streams.note(f"{names}: not used; with --sharing-mode it gives a first guess of the compute share")
    return None


def _manifest(
    measured: Measurements, fitted: Fit, sharing: SharingFit | None, profile: dict[str, Any]
) -> dict[str, Any]:
    model, instance_type, gpu_memory = profile["model"], profile["instance_type"], profile["gpu_memory"]
    samples = measured.alone
    how = "least-squares line through the means" if fitted.kind == "linear" else "table of the means"
    source = f"{how} of {samples.count} samples at {len(fitted.entries)} batches in {Path(samples.name).name}"
    if sharing is not None:
        source += f"; {share_source(sharing.share)}"
    manifest = profile_manifest(
        profile["name"] or f"{model}-{instance_type}",
        profile["namespace"],
        model=model,
        instance_type=instance_type,
        latency=latency_of(fitted),
        source=source,
    )
    if gpu_memory is not None:
        manifest["spec"]["gpuMemory"] = gpu_memory
    if sharing is not None:
        manifest["spec"] |= sharing_fields(sharing)
    try:
        ModelProfile.model_validate(manifest)
    except ValidationError as error:
        refuse(*(f"{samples.name}: the profile made of it is not valid: {line}" for line in field_errors(error)))
    return manifest


def _block(samples: Samples, fit: Fit, title: str, sharing: SharingFit | None) -> Block:
    if sharing is None:
        return fit_block(samples, fit, title)
    return fit_block(samples, fit, title, ("share", _share(sharing)), _runs(sharing))


def fit_block(samples: Samples, fit: Fit, title: str, more: tuple[str, str] | None = None, *tables: Table) -> Block:
    """A fit for people. more: a line."""
    lines: tuple[tuple[str, str], ...] = (
        ("samples", f"{samples.count} at {len(samples.by_batch)} batches"),
        ("kind", f"{fit.kind}: {fit.why}"),
        ("line", f"{_line(fit)}; worst at batch {fit.worst[0]}: {fit.worst[1] * 100:.1f} % off"),
    )
    lines += () if more is None else (more,)
    return Block(f"{title}: {_chosen(fit)}", lines, (_entries(fit, samples), *tables))


def _chosen(fit: Fit) -> str:
    return _line(fit) if fit.kind == "linear" else f"table of {len(thinned(fit.entries))} batches"


def _line(fit: Fit) -> str:
    return f"{milliseconds(fit.line.intercept)} + {milliseconds(fit.line.slope)} per item"


def _entries(fit: Fit, samples: Samples) -> Table:
    quantiles = (f">{name.upper()} MS" for name in _COLUMNS)
    table = grid(">BATCH", ">SAMPLES", ">MEAN MS", *quantiles, ">CV", ">LINE OFF")
    for entry, error in zip(fit.entries, fit.errors, strict=True):
        if entry.batch not in samples.by_batch:
            continue
        table.add_row(
            str(entry.batch),
            str(entry.count),
            f"{entry.mean * 1e3:.4g}",
            *(_quantile(entry, name) for name in _COLUMNS),
            "-" if entry.variation is None else f"{entry.variation * 100:.1f} %",
            f"{error * 100:.1f} %",
        )
    return table


def _quantile(entry: MeasuredBatch, name: str) -> str:
    return "-" if entry.quantiles is None else f"{entry.quantiles[name] * 1e3:.4g}"


def _share(sharing: SharingFit) -> str:
    fit, mode = sharing.share, sharing.mode
    what = f"{format_ratio(fit.stated)} of the GPU's compute at batch {fit.batch} ({mode})"
    return f"{what}: a first guess from {fit.counter}" if fit.counter is not None else what


def _runs(sharing: SharingFit) -> Table:
    """Every run with its ratio to the run alone."""
    table = grid("RUN", ">QUERIES", ">LATENCY / ALONE", ">95 %", ">THROUGHPUT / ONE", ">STATED")
    for run in sharing.share.runs:
        last = run is sharing.share.runs[-1]
        table.add_row(
            f"{run.copies} {'copy' if run.copies == 1 else 'copies'}",
            str(run.queries),
            *_ratio(run.stretch),
            f"{run.throughput.value:.3f}",
            f"share {format_ratio(sharing.share.stated)}" if last else "-",
        )
    for one in sharing.factors:
        table.add_row(
            f"{one.model} at batch {one.batch} beside batch {one.own_batch}",
            str(one.queries),
            *_ratio(one.factor),
            "-",
            f"factor {format_ratio(one.stated)}",
        )
    return table


def _ratio(estimate: Estimate) -> tuple[str, str]:
    return f"{estimate.value:.3f}", f"{estimate.low:.3f} to {estimate.high:.3f}"


def _draw(samples: Samples, fit: Fit, title: str, path: str, sharing: SharingFit | None) -> None:
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
    axes.legend()


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
    copies = [run.copies for run in fit.runs]
    _draw_estimates(axes, copies, [run.throughput for run in fit.runs], COLOURS[0])
    axes.set(
        title=f"copies at batch {fit.batch}",
        xlabel="copies on one GPU",
        ylabel="throughput (of one copy)",
        ylim=(0, None),
    )
    axes.set_xticks(copies)
    axes.legend()


def _draw_estimates(
    axes: Axes, at: Sequence[int], found: Sequence[Estimate], colour: str, *, lying: bool = False
) -> None:
    values = [one.value for one in found]
    ends = ([one.value - one.low for one in found], [one.high - one.value for one in found])
    where: dict[str, Any] = {"x": values, "y": at, "xerr": ends} if lying else {"x": at, "y": values, "yerr": ends}
    look: dict[str, Any] = {"color": colour, "marker": "o", "markersize": 5, "linestyle": "none", "capsize": 3}
    axes.errorbar(**where, **look, label="measured, 95 %")


def _draw_factors(axes: Axes, fits: tuple[FactorFit, ...]) -> None:
    """Factor on each neighbour with its interval; the stated end is written beside."""
    shown = sorted(fits, key=lambda fit: (-fit.stated, fit.model, fit.batch))[:_MOST_FACTORS][::-1]
    _draw_estimates(axes, range(len(shown)), [fit.factor for fit in shown], COLOURS[1], lying=True)
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
    lying(axes)


def _top(points: list[tuple[int, float]], fit: Fit) -> float:
    """Upper end of the axis [ms], without single cold starts."""
    highest = max(
        max(entry.quantiles["p99"] if entry.quantiles is not None else entry.mean for entry in fit.entries) * 1e3,
        fit.line.at(fit.entries[-1].batch) * 1e3,
    )
    return min(max(latency for _, latency in points), 1.2 * highest) * 1.08
