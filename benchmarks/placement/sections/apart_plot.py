"""Plot of `apart`: what each verb takes of the extender's own time, every round a point, beside the goals."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Final

from benchmarks.placement.results import FOLDER
from benchmarks.reporting import Json

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FILE: Final = "apart.png"
_VERBS: Final = (
    ("decide", "filter"),
    ("decide", "bind"),
    ("score", "filter"),
    ("score", "prioritize"),
    ("score", "bind"),
)
_GOALS_MS: Final = {"filter": 2.0, "bind": 0.5}


def draw(data: Json) -> bool:
    """Draw the largest cluster; False where no verb was timed."""
    size = data["sizes"][-1]
    if not any(_times(size, case, verb) for case, verb in _VERBS):
        return False
    import matplotlib as mpl  # noqa: PLC0415

    mpl.use("Agg")
    from matplotlib import pyplot  # noqa: PLC0415

    figure, axis = pyplot.subplots(figsize=(7, 4), layout="constrained")
    _own_times(axis, size)
    FOLDER.mkdir(parents=True, exist_ok=True)
    figure.savefig(FOLDER / FILE, dpi=110)
    pyplot.close(figure)
    return True


def _own_times(axis: Axes, size: Json) -> None:
    """Per verb: median over the rounds of p50 and of p99, a point for every round, and the goal."""
    shown = [(case, verb, times) for case, verb in _VERBS if (times := _times(size, case, verb))]
    for row, (_, verb, times) in enumerate(shown):
        for quantile, colour in (("p50", "tab:blue"), ("p99", "tab:red")):
            values = [time[quantile] for time in times]
            label = quantile if row == 0 else None
            axis.scatter(values, [row] * len(values), s=18, color=colour, alpha=0.7, label=label)
            axis.vlines(statistics.median(values), row - 0.3, row + 0.3, color=colour)
        if verb in _GOALS_MS:
            label = "goal (filter p99, bind p50)" if row == 0 else "_"  # an underscore: not in the legend
            axis.vlines(_GOALS_MS[verb], row - 0.4, row + 0.4, color="black", linestyle=":", label=label)
    axis.set_yticks(range(len(shown)), [f"{case}: {verb}" for case, verb, _ in shown])
    axis.invert_yaxis()
    axis.set_xscale("log")
    axis.xaxis.set_major_formatter("{x:g}")
    axis.set_xlabel("own time [ms]")
    axis.set_title(f"Own time of the verbs, {size['nodes']} nodes", fontsize=10)
    if shown:
        axis.legend(fontsize=8)


def _times(size: Json, case: str, verb: str) -> list[Json]:
    """A verb's quantiles [ms] in every round that has it."""
    found = (one.get(case, {}).get("verbs", {}) for one in size["rounds"])
    return [verbs[verb] for verbs in found if verb in verbs]
