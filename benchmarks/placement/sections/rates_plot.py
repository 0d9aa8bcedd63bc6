"""Plot of `rates`: how far each case is from the scheduler alone, every round a point."""

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
    "no-op bind": "tab:green",
    "decide": "tab:blue",
    "no-op all": "tab:olive",
    "score": "tab:orange",
}
_BASE: Final = "none"


def draw(data: Json) -> bool:
    """Draw; False where there is nothing to compare."""
    sizes = [size for size in data["sizes"] if all(_BASE in one for one in size["rounds"])]
    cases = [case for case in data["cases"] if case != _BASE]
    if not sizes or not cases:
        return False
    import matplotlib as mpl  # noqa: PLC0415

    mpl.use("Agg")
    from matplotlib import pyplot  # noqa: PLC0415

    figure, axis = pyplot.subplots(figsize=(7, 4), layout="constrained")
    _ratios(axis, sizes, cases)
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
    axis.set_xticks(range(len(sizes)), [f"{size['nodes']} nodes,\n{size['pods']} pods" for size in sizes])
    axis.set_ylim(bottom=0.0)
    axis.set_ylabel("pods/s, by that of no extender in the same round")
    axis.set_title("Rate: every round, and the median", fontsize=10)
    axis.legend(fontsize=8, loc="lower left")
