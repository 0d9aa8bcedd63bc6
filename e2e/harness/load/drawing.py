"""Draws a play over the time of its trace: the load, the instances, the price and the late queries."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from harness.load.seen import Instances, Moment, late_by
from harness.load.summary import Summary
from harness.load.view import Play
from hetserve.cli.output.plots import COLOURS, new_figure, save

BIN: Final = 5.0
"""Seconds of the play that late queries are counted over."""
_UP, _DOWN, _OTHER = COLOURS[2], COLOURS[1], COLOURS[5]
_MARKS: Final = {"ScaleUp": ("^", _UP, "scale up"), "ScaleDown": ("v", _DOWN, "scale down")}
_OTHERS: Final = ("o", _OTHER, "other decision")

Floats = NDArray[np.float64]


def draw(summary: Summary, path: Path) -> None:
    """Four panels. Raises OSError."""
    play = summary.play
    figure = new_figure(10, 9)
    panels = figure.subplots(4, 1, sharex=True, height_ratios=[3, 2.2, 1.6, 1.2])
    hours = np.array([play.wanted.hour(moment.at) for moment in play.moments])
    _load(play, hours, panels[0])
    _instances(play, hours, panels[1])
    _price(summary, hours, panels[2])
    _late(summary, panels[3])
    panels[0].set_title(_title(summary))
    panels[-1].set(xlabel="hour of the trace", xlim=(play.wanted.hour(0), play.wanted.hour(play.wanted.seconds)))
    panels[-1].xaxis.set_major_locator(MaxNLocator(nbins=9, steps=[1, 2, 3, 6, 10]))
    save(figure, str(path))


def _title(summary: Summary) -> str:
    share = summary.queries.late_share
    late = "no query ended" if share is None else f"{share:.2%} of {summary.queries.ended:,.0f} queries late"
    wanted = summary.play.wanted
    return f"{summary.play.service}: {late}, ${summary.spent / 1e6:.2f}; played {wanted.speed:,.0f} times as fast"


def _line(values: list[float | None]) -> Floats:
    """Gaps where a value is not known."""
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)


def _load(play: Play, hours: Floats, axes: Axes) -> None:
    held, moments = _line(play.held), play.moments
    planned = _line([moment.planned_for for moment in moments])
    axes.fill_between(hours, 0, held, step="post", color=COLOURS[0], alpha=0.12, linewidth=0)
    axes.step(hours, held, where="post", color=COLOURS[0], linewidth=1, label="ready instances hold")
    axes.step(hours, planned, where="post", color=COLOURS[5], linewidth=0.9, ls=":", label="planned for")
    axes.plot(hours, _line([m.load for m in moments]), color="black", linewidth=1.1, label="load, measured")
    axes.plot(hours, _line([m.rate for m in moments]), color=COLOURS[4], linewidth=1, linestyle="--", label="trace")
    _marks(play, axes, top=max(1.0, np.nanmax(np.concatenate([held, planned, [0.0]]))))
    axes.set(ylabel="queries/s")
    axes.legend(ncols=6, loc="upper left", columnspacing=1.2, handlelength=1.6)


def _marks(play: Play, axes: Axes, top: float) -> None:
    """A row of marks above what is held, below the legend."""
    axes.set_ylim(0, 1.3 * top)
    for action in (*_MARKS, ""):
        mark, colour, label = _MARKS.get(action, _OTHERS)
        at = [
            play.wanted.hour(told.at)
            for told in play.told
            if (told.action == action if action else told.action not in _MARKS)
        ]
        if at:
            axes.scatter(at, [1.07 * top] * len(at), marker=mark, s=22, color=colour, label=label, linewidths=0)


def _instances(play: Play, hours: Floats, axes: Axes) -> None:
    """Ready ones, stacked by type; the line: all that are paid."""
    kinds = sorted(play.types)
    ready = [_line([_ready(moment, kind) for moment in play.moments]) for kind in kinds]
    paid = _line([_paid(moment) for moment in play.moments])
    base = np.zeros(len(hours))
    for number, (kind, counts) in enumerate(zip(kinds, ready, strict=True)):
        top, colour = base + counts, COLOURS[number % len(COLOURS)]
        if np.nansum(counts):
            axes.fill_between(hours, base, top, step="post", color=colour, alpha=0.75, linewidth=0, label=kind)
        base = top
    axes.step(hours, paid, where="post", color="black", linewidth=0.8, label="with those that launch or leave")
    axes.set(ylabel="instances", ylim=(0, 1.3 * max(1.0, np.nanmax([*paid, 0.0]))))
    axes.legend(ncols=4, loc="upper left")


def _ready(moment: Moment, kind: str) -> float | None:
    return None if moment.instances is None else float(moment.instances.get(kind, Instances()).ready)


def _paid(moment: Moment) -> float | None:
    return None if moment.instances is None else float(sum(one.paid for one in moment.instances.values()))


def _price(summary: Summary, hours: Floats, axes: Axes) -> None:
    play = summary.play
    cost = _line([None if moment.cost is None else moment.cost / 1e6 for moment in play.moments])
    label = f"all pods: ${summary.spent / 1e6:.2f}"
    axes.fill_between(hours, 0, cost, step="post", color=COLOURS[3], alpha=0.2, linewidth=0)
    axes.step(hours, cost, where="post", color=COLOURS[3], linewidth=1, label=label)
    axes.axhline(play.budget / 1e6, color="black", linewidth=0.8, linestyle="--", label="budget")
    for number, static in enumerate(summary.statics):
        dollars = summary.static_spent(static) / 1e6
        label = f"static plan for the peak, used to {100 * static.used:.0f} %: ${dollars:.2f}"
        style = ("-.", ":")[number % 2]
        axes.axhline(static.hourly / 1e6, color=COLOURS[1], linewidth=0.9, linestyle=style, label=label)
    axes.set(ylabel="$/h", ylim=(0, 1.45 * play.budget / 1e6))
    axes.legend(ncols=4, loc="upper left", columnspacing=1.2, handlelength=1.8)


def _late(summary: Summary, axes: Axes) -> None:
    play = summary.play
    bins = late_by(play.moments, BIN)
    if bins:
        begins, ends, shares = (np.array(column) for column in zip(*bins, strict=True))
        left = np.array([play.wanted.hour(at) for at in begins])
        width = np.array([play.wanted.hour(at) for at in ends]) - left
        axes.bar(left, 100 * shares, width=width, align="edge", color=_DOWN, linewidth=0)
    allowed = f"{100 * play.allowed:.3g} % may be late over all"
    axes.axhline(100 * play.allowed, color="black", linestyle="--", linewidth=0.8, label=allowed)
    top = max([4 * play.allowed, *(share for _, _, share in bins)])
    axes.set(ylabel=f"late in {BIN:g} s (%)", ylim=(0, 130 * top))
    axes.legend(loc="upper left")
