"""Plots of the report, as SVG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from benchmarks.hetsev.results import KEPT
from benchmarks.reporting import Json

from hetserve.cli.output.plots import COLOURS, new_figure, save

_PANELS: Final = ("answered", "gpu_use", "response")
_LABELS: Final = {
    "answered": ("queries/s answered", 1.0),
    "gpu_use": ("GPU use [%]", 100.0),
    "response": ("mean response [ms]", 1000.0),
    "instances": ("instances", 1.0),
    "late": ("late [%]", 100.0),
}


def over_time(name: str, courses: Mapping[str, Json]) -> str:
    """NAME.svg, as the paper's Figure 5: a line for each controller. Returns Markdown."""
    figure = new_figure(9, 7)
    for axes, what in zip(figure.subplots(len(_PANELS), 1, sharex=True), _PANELS, strict=True):
        for colour, (controller, course) in zip(COLOURS, courses.items(), strict=False):
            _line(axes, course, _all_of(course, what), what, label=controller, color=colour)
        axes.legend(ncols=len(courses))
    return _saved(figure, name, axes)


def by_service(name: str, course: Json) -> str:
    """NAME.svg, as the paper's Figure 6: a line for each service of one controller. Returns Markdown."""
    figure = new_figure(9, 7)
    for axes, what in zip(figure.subplots(3, 1, sharex=True), ("answered", "instances", "late"), strict=True):
        for colour, (service, values) in zip(COLOURS, course[what].items(), strict=False):
            _line(axes, course, values, what, label=service, color=colour)
    axes.legend(ncols=len(course["late"]))
    return _saved(figure, name, axes)


def costs(name: str, bars: Mapping[str, Sequence[float]], services: Sequence[str], label: str) -> str:
    """NAME.svg, as the paper's Figure 7: for each service a bar for each controller. Returns Markdown."""
    figure = new_figure(9, 3.5)
    axes, width = figure.subplots(), 0.8 / len(bars)
    for k, (colour, (controller, values)) in enumerate(zip(COLOURS, bars.items(), strict=False)):
        axes.bar([i + k * width for i in range(len(services))], values, width, label=controller, color=colour)
    axes.set_xticks([i + 0.4 - width / 2 for i in range(len(services))], services)
    axes.set_yscale("log")
    axes.set_ylabel(label)
    axes.legend(ncols=len(bars))
    return _saved(figure, name)


def _all_of(course: Json, what: str) -> list[float | None]:
    values = course[what]
    return [sum(some) for some in zip(*values.values(), strict=True)] if isinstance(values, dict) else values


def _line(axes: Any, course: Json, values: Sequence[float | None], what: str, **style: Any) -> None:
    label, scale = _LABELS[what]
    shown = [float("nan") if value is None else scale * value for value in values]
    axes.plot(course["times"], shown, linewidth=1.0, **style)
    axes.set_ylabel(label)


def _saved(figure: Any, name: str, bottom: Any = None) -> str:
    if bottom is not None:
        bottom.set_xlabel("time [s]")
    KEPT.folder.mkdir(parents=True, exist_ok=True)
    save(figure, str(KEPT.folder / f"{name}.svg"))
    return f"![{name}]({KEPT.name}/{name}.svg)\n"
