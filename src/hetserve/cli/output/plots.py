"""Figures that look alike; imports matplotlib, so import it late."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

COLOURS: Final = ("#1f5fa8", "#c2541b", "#3f8f4f", "#8256a8", "#b0892a", "#5f6b78", "#b33a5b", "#2b8c8c")


def new_figure(width: float, height: float) -> Figure:
    """Empty figure, inches, without any window system."""
    figure = Figure(figsize=(width, height), dpi=120, layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def quiet(axes: Axes) -> None:
    """No frame on top and right, light horizontal lines behind the bars."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(visible=True, axis="y", alpha=0.25)
    axes.set_axisbelow(True)


def save(figure: Figure, path: str) -> None:
    """Write the picture; OSError where that fails. The same figure gives the same bytes."""
    svg = Path(path).suffix.lower() == ".svg"
    with rc_context({"svg.hashsalt": "hetserve"}):
        figure.savefig(path, metadata={"Date": None} if svg else {"Software": None})
