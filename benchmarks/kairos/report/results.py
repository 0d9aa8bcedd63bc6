"""How measurements of Kairos's figures are kept."""

from __future__ import annotations

from typing import Final

from benchmarks.kairos.evaluation.measure import Scale
from benchmarks.reporting import Json, Kept, machine
from benchmarks.running import part

KEPT: Final = Kept("kairos", "kairos.figures")


def save(name: str, scale: Scale, data: Json, seconds: float) -> None:
    """Keeps a measurement, with the scale that its figures have."""
    used = getattr(part(KEPT, name), "used", lambda same: same)(scale)
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
    return part(KEPT, name).measure(scale)


def qps(value: float) -> str:
    """A rate with four significant digits."""
    return f"{value:.0f}" if value >= 1000 else f"{value:.1f}"


def picture(name: str, words: str) -> str:
    return f"![{words}](kairos/{name}.png)\n"
