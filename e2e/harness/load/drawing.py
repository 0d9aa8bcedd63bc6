"""Draws a play over the time of its trace: the load, the instances, the price and the late queries."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from harness.load.course import Floats, Instances, Play
from harness.load.shown import known
from hetserve.cli.output.plots import COLOURS, new_figure, save
from hetserve.planning.formatting import share_text

BIN: Final = 5.0
"""Seconds of the play that late queries are counted over."""
_MARKS: Final = {
    "ScaleUp": ("^", COLOURS[2]),
    "ScaleDown": ("v", COLOURS[1]),
    "Replace": ("o", COLOURS[5]),
    "Shrink": ("s", COLOURS[5]),
}


def draw(play: Play, path: Path) -> None:
    """Four panels. Raises OSError."""
    figure = new_figure(10, 9)
    panels = figure.subplots(4, 1, sharex=True, height_ratios=[3, 2.2, 1.6, 1.2])
    hours, sums = play.wanted.hour(0) + play.column("at") * play.wanted.speed / 3600, play.sums()
    _load(play, hours, panels[0])
    _instances(play, hours, panels[1])
    _price(play, sums, hours, panels[2])
    _late(play, sums["allowedShare"], panels[3])
    for axes in panels:
        axes.legend(ncols=6, loc="upper left", columnspacing=1.2, handlelength=1.6)
        axes.margins(y=0.35)  # for the legend, above what is drawn
        axes.set_ylim(bottom=0)
    title = f"{known(sums['lateShare'], share_text)} of {sums['ended']:,.0f} queries late, ${sums['spent'] / 1e6:.2f}"
    panels[0].set_title(f"{play.problem.service}: {title}; played {play.wanted.speed:,.0f} times as fast")
    panels[-1].set(xlabel="hour of the trace", xlim=(play.wanted.hour(0), play.wanted.hour(play.wanted.seconds)))
    panels[-1].xaxis.set_major_locator(MaxNLocator(nbins=9, steps=[1, 2, 3, 6, 10]))
    save(figure, str(path))


def _load(play: Play, hours: Floats, axes: Axes) -> None:
    held = np.array([play.held(moment) for moment in play.moments])
    axes.fill_between(hours, 0, held, step="post", color=COLOURS[0], alpha=0.12, linewidth=0)
    axes.step(hours, held, where="post", color=COLOURS[0], linewidth=1, label="ready instances hold")
    planned = play.column("planned")
    axes.step(hours, planned, where="post", color=COLOURS[5], linewidth=0.9, ls=":", label="planned for")
    axes.plot(hours, play.column("load"), color="black", linewidth=1.1, label="load, measured")
    axes.plot(hours, play.column("rate"), color=COLOURS[4], linewidth=1, linestyle="--", label="trace")
    top = 1.07 * max(1.0, np.nanmax([*held, *planned, 0.0]))
    for action, (mark, colour) in _MARKS.items():
        at = [play.wanted.hour(one["at"]) for one in play.decisions if one["action"] == action]
        if at:
            axes.scatter(at, [top] * len(at), marker=mark, s=22, color=colour, label=action, linewidths=0)
    axes.set(ylabel="queries/s")


def _instances(play: Play, hours: Floats, axes: Axes) -> None:
    """Ready ones, stacked by type; the line: all that are paid."""
    kinds = [option.name for option in play.problem.types]
    seen = [moment.instances for moment in play.moments]
    ready = [[np.nan if now is None else now.get(kind, Instances()).ready for now in seen] for kind in kinds]
    axes.stackplot(hours, ready, labels=kinds, colors=COLOURS, step="post", alpha=0.75, linewidth=0)
    paid = [np.nan if now is None else sum(map(sum, now.values())) for now in seen]
    axes.step(hours, paid, where="post", color="black", linewidth=0.8, label="with those that launch or leave")
    axes.set(ylabel="instances")


def _price(play: Play, sums: dict[str, float], hours: Floats, axes: Axes) -> None:
    cost = play.column("cost") / 1e6
    axes.fill_between(hours, 0, cost, step="post", color=COLOURS[3], alpha=0.2, linewidth=0)
    label = f"all pods: ${sums['spent'] / 1e6:.2f}"
    axes.step(hours, cost, where="post", color=COLOURS[3], linewidth=1, label=label)
    axes.axhline(sums["budgetHourly"] / 1e6, color="black", linewidth=0.8, linestyle="--", label="budget")
    for style, (used, plan) in zip(("-.", ":"), play.statics.items(), strict=False):
        label = f"static plan for the peak, used to {share_text(used)}: ${plan.cost * sums['traceHours'] / 1e6:.2f}"
        axes.axhline(plan.cost / 1e6, color=COLOURS[1], linewidth=0.9, linestyle=style, label=label)
    axes.set(ylabel="$/h")


def _late(play: Play, allowed: float, axes: Axes) -> None:
    edges = np.arange(0, play.played, BIN)
    width = BIN * play.wanted.speed / 3600
    shares = 100 * play.late(*edges)
    axes.bar(play.wanted.hour(0) + width * np.arange(len(shares)), shares, width, align="edge", color=COLOURS[1])
    label = f"{share_text(allowed)} may be late over all"
    axes.axhline(100 * allowed, color="black", linestyle="--", linewidth=0.8, label=label)
    axes.set(ylabel=f"late in {BIN:g} s (%)")
