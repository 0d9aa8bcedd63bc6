"""Where measurements are kept, and how the report is put together from them: docs/results/kairos.md and kairos/."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Final, Protocol, cast

import numba
import numpy as np
import scipy
from benchmarks.kairos.measure import Scale
from benchmarks.kairos.setting import REPOSITORY

FOLDER: Final = REPOSITORY / "docs" / "results" / "kairos"
REPORT: Final = REPOSITORY / "docs" / "results" / "kairos.md"

Json = dict[str, Any]


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
    FOLDER.mkdir(parents=True, exist_ok=True)
    about = {
        "command": f"python -m benchmarks.kairos {name}" + (" --full" if scale.full else ""),
        "seconds": round(seconds, 1),
        "jobs": scale.jobs,
        "queries": used.queries,
        "seeds": list(used.seeds),
        "searchQueries": scale.search_queries,
        "searchSeeds": list(scale.search_seeds),
        "machine": machine(),
    }
    text = json.dumps({"about": about, "data": _rounded(data)}, indent=1, sort_keys=False)
    (FOLDER / f"{name}.json").write_text(text + "\n", encoding="utf-8")


def load(name: str) -> tuple[Json, Json] | None:
    """(about, data) of a measurement that was kept; None: there is none."""
    path = FOLDER / f"{name}.json"
    if not path.is_file():
        return None
    kept = json.loads(path.read_text(encoding="utf-8"))
    return kept["about"], kept["data"]


def kept_or_measured(name: str, scale: Scale) -> Json:
    """What is kept of a figure that others build on; measured where it is not."""
    kept = load(name)
    if kept is not None:
        return kept[1]
    module = cast("Figure", import_module(f"benchmarks.kairos.{name}"))
    return module.measure(scale)


def machine() -> str:
    """Processor, cores and versions, in one line."""
    model = platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.is_file():
        lines = (line.partition(":") for line in cpuinfo.read_text(encoding="utf-8").splitlines())
        model = next((value.strip() for key, _, value in lines if key.strip() == "model name"), model)
    versions = f"Python {platform.python_version()}, numba {numba.__version__}, NumPy {np.__version__}"
    return f"{model}, {os.cpu_count()} cores, {versions}, SciPy {scipy.__version__}"


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Markdown table."""
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def qps(value: float) -> str:
    """A rate with four significant digits."""
    return f"{value:.0f}" if value >= 1000 else f"{value:.1f}"


def verdict(held: bool) -> str:
    return "held" if held else "**missed**"


def picture(name: str, words: str) -> str:
    return f"![{words}](kairos/{name}.png)\n"


def _rounded(data: Any) -> Any:
    if isinstance(data, dict):
        return {key: _rounded(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [_rounded(value) for value in data]
    return float(f"{data:.6g}") if isinstance(data, float) else data
