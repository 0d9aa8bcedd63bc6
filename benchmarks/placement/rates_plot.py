"""Plot of `rates`: how far each case is from the scheduler alone, every round a point, and what the verbs take."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from benchmarks.placement.results import FOLDER
from benchmarks.reporting import Json

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FILE: Final = "rates.png"
_COLOURS: Final = {
    "no-op one": "tab:gray",
    "decide": "tab:blue",
    "no-op all": "tab:olive",
    "score": "tab:orange",
}
_VERBS: Final = (
    ("decide", "filter"),
    ("decide", "bind"),
    ("score", "filter"),
    ("score", "prioritize"),
    ("score", "bind"),
)
_BASE: Final = "none"
_GOALS_MS: Final = {"filter": 2.0, "bind": 0.5}


def draw(data: Json) -> bool:
    """Draw; False where there is nothing to compare."""
    sizes = [size for size in data["sizes"] if all(_BASE in one for one in size["rounds"])]
    cases = [case for case in data["cases"] if case != _BASE]
    if not sizes or not cases:
        return False
    import matplotlib as mpl  # noqa: PLC0415

    mpl.use("Agg")
    from matplotlib import pyplot  # noqa: PLC0415

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(11, 4), layout="constrained")
    _ratios(left, sizes, cases)
    _own_times(right, sizes[-1])
    FOLDER.mkdir(parents=True, exist_ok=True)
    figure.savefig(FOLDER / FILE, dpi=110)
    pyplot.close(figure)
    return True


def _ratios(axis: Axes, sizes: Sequence[Json], cases: Sequence[str]) -> None:
    """Per size and case: the ratio of every round, and a line at their median."""
    width = 0.8 / len(cases)
    for number, case in enumerate(cases):
        colour = _COLOURS.get(case, f"C{number + 4}")
        for at, size in enumerate(sizes):
            found = [one[case]["rate"] / one[_BASE]["rate"] for one in size["rounds"] if case in one]
            centre = at - 0.4 + (number + 0.5) * width
            axis.scatter([centre] * len(found), found, s=18, color=colour, alpha=0.7, label=case if at == 0 else None)
            axis.hlines(statistics.median(found), centre - width * 0.4, centre + width * 0.4, color=colour)
    axis.axhline(1.0, color="black", linewidth=0.8, linestyle=":")
    axis.set_xticks(range(len(sizes)), [f"{size['nodes']} nodes" for size in sizes])
    axis.set_ylim(bottom=0.0)
    axis.set_ylabel("pods/s, by that of no extender in the same round")
    axis.set_title("Rate: every round, and the median", fontsize=10)
    axis.legend(fontsize=8, loc="lower left")


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
