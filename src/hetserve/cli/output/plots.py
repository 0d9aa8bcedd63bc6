"""Figures: the option --plot, one look for all commands, reproducible files.

matplotlib is imported only when a figure is drawn; modules that draw import it at their top, so import those late.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import click

from hetserve.cli.output.messages import refuse

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS: Final = ("#1f5fa8", "#c2541b", "#3f8f4f", "#8256a8", "#b0892a", "#5f6b78", "#b33a5b", "#2b8c8c")
_SUFFIXES: Final = (".png", ".svg")


def plot_file(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """Option callback: a path that ends in .png or .svg."""
    if value is None or Path(value).suffix.lower() in _SUFFIXES:
        return value
    raise click.BadParameter(f"{value!r} must end in {' or '.join(_SUFFIXES)}", ctx, param)


plot_option = click.option("--plot", metavar="FILE", callback=plot_file, help="Draw the answer: .png or .svg.")


def draw_or_refuse(draw: Callable[[], None], path: str) -> None:
    """Calls `draw`; if the file cannot be written, reports it and exits."""
    try:
        draw()
    except OSError as error:
        refuse(f"--plot {path}: cannot be written: {error.strerror}")


def new_figure(width: float, height: float) -> Figure:
    """Empty figure, size in inches, that needs no window system."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415
    from matplotlib.figure import Figure  # noqa: PLC0415

    figure = Figure(figsize=(width, height), dpi=120, layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def quiet(axes: Axes, grid: Literal["x", "y"] = "y") -> None:
    """Removes the frame on top and right and draws a light grid along the values of axis `grid`, behind the bars."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(visible=True, axis=grid, alpha=0.25)
    axes.set_axisbelow(True)


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
    """Writes the figure; the same figure gives the same bytes.

    Raises OSError if the file cannot be written.
    """
    from matplotlib import rc_context  # noqa: PLC0415

    svg = Path(path).suffix.lower() == ".svg"
    with rc_context({"svg.hashsalt": "hetserve"}):
        figure.savefig(path, metadata={"Date": None} if svg else {"Software": None})
