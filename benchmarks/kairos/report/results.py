"""How measurements of Kairos's figures are kept."""

from __future__ import annotations

from importlib import import_module
from typing import Final, Protocol, cast

from benchmarks.kairos.evaluation.measure import Scale
from benchmarks.reporting import Json, Kept, machine

KEPT: Final = Kept("kairos", "kairos.figures")


class Figure(Protocol):
    """Measures, draws and describes one figure or table."""

    TITLE: str

    def measure(self, scale: Scale) -> Json:
        """Plain data for text and plot."""
        ...

    def describe(self, data: Json) -> str:
        """Markdown: table, the paper's words, held or missed."""
        ...


def save(name: str, data: Json, scale: Scale, seconds: float, used: Scale) -> None:
    """Keeps a measurement; used: the scale of its figures."""
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
    """A figure that others build on, measured if not kept."""
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
