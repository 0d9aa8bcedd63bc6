"""Figures 6 and 7: how late answers come, what they are worth, and what the schedulers do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
from benchmarks.fang.results import KEPT
from benchmarks.fang.world import Run, play
from benchmarks.reporting import Json, table
from numpy.typing import NDArray

from hetserve.cli.output.plots import COLOURS, new_figure, save
from hetserve.dispatch.joining import make_joining_policy

TITLE: Final = "Figures 6 and 7"
POLICIES: Final = {"fixed": "fang-fixed", "heuristic": "fang", "learned": "fang-rl"}
_WINDOW: Final = "15-18"
_POINTS: Final = 101
_SHOWN: Final = 600.0
"""Length of Fig. 7 [s]."""


def measure(quick: bool) -> Json:
    runs = {
        name: play("one", make_joining_policy(policy), _WINDOW, seconds=600 if quick else 3 * 3600)
        for name, policy in POLICIES.items()
    }
    data = {name: _data(run) for name, run in runs.items()}
    if not quick:
        _draw(data, runs)
    return data


def _data(run: Run) -> Json:
    late = run.found.finish - run.sent - 1.0
    shares = np.linspace(0, 1, _POINTS)
    _, joined, tiny = _batches(run, run.found.finish.max())
    return {
        "late": np.quantile(late, shares).tolist(),
        "quality": np.quantile(run.worth, shares).tolist(),
        "whole": float((run.worth >= 1).mean()),
        "joined": float(joined.mean()),
        "tiny": float(tiny.mean()),
    }


def _batches(run: Run, until: float) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.bool_]]:
    """Of one GPU, until so many seconds: when each batch began, the queries in it, and whether tiny served them."""
    starts, place = np.unique(run.found.start, return_index=True)
    place = place[starts < until]
    return run.found.start[place], run.found.joined[place], run.found.variant[place] == 0


def describe(data: Json) -> str:
    rows = []
    for name, found in data.items():
        late = found["late"]
        rows.append((
            name,
            *(f"{late[k]:+.2f}" for k in (10, 50, 90, 99)),
            f"{100 * found['whole']:.1f} %",
            f"{found['joined']:.1f}",
            f"{100 * found['tiny']:.1f} %",
        ))  # fmt: skip
    head = ("", "end - soft deadline: 10 %", "50 %", "90 %", "99 % (s)", "quality 1", "joined on average", "by tiny")
    return f"{_WORDS}\n{table(head, rows)}\n![Figures 6 and 7](fang/figures.png)\n"


_WORDS: Final = f"""One p2, window {_WINDOW} h; of ten minutes each batch is a point. The learned scheduler answers
later than the heuristic and uses the tiny model less, as in the paper.
"""


def _draw(data: Json, runs: Mapping[str, Run]) -> None:
    figure = new_figure(12, 8)
    top, bottom = figure.subplots(2, 3)
    shares = np.linspace(0, 1, _POINTS)
    for colour, (name, found) in zip(COLOURS, data.items(), strict=False):
        top[0].plot(found["late"], shares, label=name, color=colour)
        top[1].plot(found["quality"], shares, label=name, color=colour)
    top[0].set(title="Fig. 6a", xlabel="end - soft deadline (s)", ylabel="share of answers", xlim=(-1, 1.5))
    top[1].set(title="Fig. 6b", xlabel="quality", ylabel="share of answers")
    top[0].legend()
    top[2].axis("off")
    for axes, (name, run) in zip(bottom, runs.items(), strict=True):
        times, joined, tiny = _batches(run, _SHOWN)
        axes.scatter(times[~tiny], joined[~tiny], s=4, color="tab:blue", label="full")
        axes.scatter(times[tiny], joined[tiny], s=4, color="tab:red", label="tiny")
        axes.set(title=f"Fig. 7: {name}", xlabel="time (s)", ylabel="joined", yscale="log")
    bottom[0].legend()
    KEPT.folder.mkdir(parents=True, exist_ok=True)
    save(figure, str(KEPT.folder / "figures.png"))
