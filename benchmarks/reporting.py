"""What the reports under docs/results share: kept measurements, tables, verdicts, the machine."""

from __future__ import annotations

import json
import os
import platform
import statistics
import timeit
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final, Protocol, cast

RESULTS: Final = Path(__file__).resolve().parents[1] / "docs" / "results"
LOOP: Final = 3_000_000

Json = dict[str, Any]


class ReportPart(Protocol):
    """Measures one thing and describes it."""

    TITLE: str

    def describe(self, data: Json) -> str:
        """Markdown: table, goals, held or missed."""
        ...


@dataclass(frozen=True, slots=True)
class Kept:
    """Measurements of one report: a page and a folder of one JSON file per part, both named `name`.

    parts: package, below benchmarks, with a module for each part; default: `name`.
    """

    name: str
    parts: str = ""

    @property
    def package(self) -> str:
        return self.parts or self.name

    @property
    def folder(self) -> Path:
        return RESULTS / self.name

    @property
    def page(self) -> Path:
        return RESULTS / f"{self.name}.md"

    def save(self, part: str, about: Json, data: Json) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps({"about": about, "data": _rounded(data)}, indent=1)
        (self.folder / f"{part}.json").write_text(text + "\n", encoding="utf-8")

    def load(self, part: str) -> tuple[Json, Json] | None:
        """(about, data); None: not measured."""
        path = self.folder / f"{part}.json"
        if not path.is_file():
            return None
        kept = json.loads(path.read_text(encoding="utf-8"))
        return kept["about"], kept["data"]

    def write(self, head: str, parts: Sequence[str], command: str, facts: Callable[[Json], str]) -> Path:
        """Writes the page; `command`: would measure a part, `facts`: follow a measured one."""
        texts = [head]
        for part in parts:
            module = cast("ReportPart", import_module(f"benchmarks.{self.package}.{part}"))
            kept = self.load(part)
            texts.append(f"## {module.TITLE}\n")
            if kept is None:
                texts.append(f"Not measured yet: `{command.format(part)}`.\n")
            else:
                texts += [module.describe(kept[1]), facts(kept[0])]
        self.page.parent.mkdir(parents=True, exist_ok=True)
        self.page.write_text("\n".join(texts), encoding="utf-8")
        return self.page


def machine(*libraries: str) -> str:
    """Processor, cores, Python and versions of these libraries."""
    model = platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.is_file():
        lines = (line.partition(":") for line in cpuinfo.read_text(encoding="utf-8").splitlines())
        model = next((value.strip() for key, _, value in lines if key.strip() == "model name"), model)
    versions = [f"{library} {version(library)}" for library in libraries]
    return ", ".join([model, f"{os.cpu_count()} cores", f"Python {platform.python_version()}", *versions])


def pace(tries: int = 5) -> float:
    """Seconds for a fixed loop of Python, the median: a machine that is shared is not always as fast."""
    return statistics.median(timeit.repeat(lambda: sum(range(LOOP)), repeat=tries, number=1))


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def verdict(held: bool) -> str:
    return "held" if held else "**missed**"


def _rounded(value: Any) -> Any:
    """Six significant digits keep diffs small."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    return [_rounded(item) for item in value] if isinstance(value, list | tuple) else value
