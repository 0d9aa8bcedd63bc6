"""How a measurement of Kairos's figures is kept, and the words that only its report uses."""

from __future__ import annotations

from importlib import import_module
from typing import Final, Protocol, cast

from benchmarks.kairos.evaluation.measure import Scale
from benchmarks.reporting import Json, Kept, machine

KEPT: Final = Kept("kairos", "kairos.figures")


class Figure(Protocol):
    """A module of this package that measures, draws and describes one figure or table."""

    TITLE: str

    def measure(self, scale: Scale) -> Json:
        """Everything that the text and the plot need, as plain data."""
        ...

    def describe(self, data: Json) -> str:
        """Markdown: the table, the paper's words beside it, held or missed."""
        ...


def save(name: str, data: Json, scale: Scale, seconds: float, used: Scale) -> None:
    """Keep a measurement with what is needed to repeat it; used: the scale of the figures in it."""
    about = {
        "command": f"python -m benchmarks.kairos {name}" + (" --full" if scale.full else ""),
        "seconds": round(seconds, 1),
        "jobs": scale.jobs,
        "queries": used.queries,
        "seeds": list(used.seeds),
        "searchQueries": scale.search_queries,
        "searchSeeds": list(scale.search_seeds),
        "machine": machine("numba", "NumPy", "SciPy"),
    }
    KEPT.save(name, about, data)


def kept_or_measured(name: str, scale: Scale) -> Json:
    """What is kept of a figure that others build on; measured where it is not."""
    kept = KEPT.load(name)
    if kept is not None:
        return kept[1]
    module = cast("Figure", import_module(f"benchmarks.kairos.figures.{name}"))
    return module.measure(scale)


def qps(value: float) -> str:
    """A rate with four significant digits."""
    return f"{value:.0f}" if value >= 1000 else f"{value:.1f}"


def picture(name: str, words: str) -> str:
    return f"![{words}](kairos/{name}.png)\n"
