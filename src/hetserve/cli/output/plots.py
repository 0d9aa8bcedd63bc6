"""Figures: the option --plot, one look, reproducible files; loads matplotlib late."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from hetserve.cli.output.streams import refuse

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS: Final = ("#1f5fa8", "#c2541b", "#3f8f4f", "#8256a8", "#b0892a", "#5f6b78", "#b33a5b", "#2b8c8c")
_SUFFIXES: Final = (".png", ".svg")
_LOOK: Any = {
    "axes.axisbelow": True,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 10,
    "grid.alpha": 0.25,
    "legend.fontsize": 8,
    "legend.frameon": False,
    "svg.hashsalt": "hetserve",
}
"""No frame, a light grid, small titles on the left; svg: equal names of parts in equal figures."""


def plot_file(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """Option callback: a path that ends in .png or .svg."""
    if value is None or Path(value).suffix.lower() in _SUFFIXES:
        return value
    raise click.BadParameter(f"{value!r} must end in {' or '.join(_SUFFIXES)}", ctx, param)


plot_option = click.option("--plot", metavar="FILE", callback=plot_file, help="Draw the answer: .png or .svg.")


def draw_or_refuse(draw: Callable[[], None], path: str) -> None:
    """Draws; if the file cannot be written, reports it and exits."""
    try:
        draw()
    except OSError as error:
        refuse(f"--plot {path}: cannot be written: {error.strerror}")


def draw_rows(results: Sequence[Any], path: str, *panels: Callable[[Any, Axes], None]) -> None:
    """A row for each result, in which each function draws a panel. Raises OSError."""
    figure = new_figure(10, 4 * len(results))
    rows = figure.subplots(len(results), len(panels), squeeze=False)
    for result, row in zip(results, rows, strict=True):
        for panel, axes in zip(panels, row, strict=True):
            panel(result, axes)
    save(figure, path)


def new_figure(width: float, height: float) -> Figure:
    """Empty figure in inches, with one look; needs no window system."""
    from matplotlib import rcParams  # noqa: PLC0415
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415
    from matplotlib.figure import Figure  # noqa: PLC0415

    rcParams.update(_LOOK)
    figure = Figure(figsize=(width, height), dpi=120, layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def lying(axes: Axes) -> None:
    """Axes of lying bars: the grid is for x."""
    axes.grid(visible=False, axis="y")
    axes.grid(visible=True, axis="x")


def wrapped(parts: Sequence[str], width: int) -> str:
    """The parts joined by plus signs, in lines of about `width`."""
    lines = [""]
    for part in parts:
        if lines[-1] and len(lines[-1]) + len(part) > width:
            lines[-1] += "+"
            lines.append("")
        lines[-1] += ("+" if lines[-1] else "") + part
    return "\n".join(lines)


def save(figure: Figure, path: str) -> None:
    """Writes the figure; equal figures give equal bytes. Raises OSError."""
    svg = Path(path).suffix.lower() == ".svg"
    figure.savefig(path, metadata={"Date": None} if svg else {"Software": None})
