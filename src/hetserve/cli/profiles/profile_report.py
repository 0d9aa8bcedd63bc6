"""A fitted profile as a table, every column with its unit."""

from __future__ import annotations

from rich.console import Console
from rich.padding import Padding
from rich.table import Table

from hetserve.base.units import format_ratio
from hetserve.cli.output.terminal import drawn, styled
from hetserve.profiles.fit import Fit, MeasuredBatch, thinned
from hetserve.profiles.measurements import Samples
from hetserve.profiles.sharing_fit import Estimate, SharingFit
from hetserve.profiles.spec import milliseconds

_COLUMNS = ("min", "p50", "p90", "p99", "max")


def as_table(samples: Samples, fit: Fit, title: str, sharing: SharingFit | None = None) -> str:
    lines: tuple[tuple[str, str], ...] = (
        ("samples", f"{samples.count} at {len(fit.entries)} batches"),
        ("kind", f"{fit.kind}: {fit.why}"),
        ("line", f"{_line(fit)}; worst at batch {fit.worst[0]}: {fit.worst[1] * 100:.1f} % off"),
    )
    if sharing is not None:
        lines += (("share", _share(sharing)),)

    def draw(console: Console) -> None:
        console.print(styled(f"{title}: {_chosen(fit)}", "bold"))
        for label, text in lines:
            console.print(styled(f"  {label:<8} ", "dim"), styled(text), sep="")
        console.print(Padding(_entries(fit), (1, 0, 0, 2)))
        if sharing is not None:
            console.print(Padding(_runs(sharing), (1, 0, 0, 2)))

    return drawn(draw)


def _chosen(fit: Fit) -> str:
    return _line(fit) if fit.kind == "linear" else f"table of {len(thinned(fit.entries))} batches"


def _line(fit: Fit) -> str:
    return f"{milliseconds(fit.line.intercept)} + {milliseconds(fit.line.slope)} per item"


def _entries(fit: Fit) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), show_edge=False)
    for column in ("BATCH", "SAMPLES", "MEAN MS", *(f"{name.upper()} MS" for name in _COLUMNS), "CV", "LINE OFF"):
        table.add_column(column, justify="right")
    for entry, error in zip(fit.entries, fit.errors, strict=True):
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
    table = Table(box=None, padding=(0, 2, 0, 0), show_edge=False)
    for column in ("RUN", "QUERIES", "LATENCY / ALONE", "95 %", "THROUGHPUT / ONE", "STATED"):
        table.add_column(column, justify="left" if column == "RUN" else "right")
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
