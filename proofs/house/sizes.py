"""Files, lines, modules per folder, lines of modules and functions."""

from __future__ import annotations

import ast
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from house.source import Source


@dataclass(frozen=True, slots=True)
class Size:
    files: int
    lines: int


@dataclass(frozen=True, slots=True)
class Spread:
    """Median, 90th percentile (nearest rank) and greatest; 0 if empty."""

    median: int
    p90: int
    greatest: int


def size_of(sources: Sequence[Source]) -> Size:
    return Size(len(sources), sum(len(source.lines) for source in sources))


def folders(sources: Iterable[Source]) -> dict[str, int]:
    """Modules directly in each folder, the fullest first."""
    counts = Counter(str(PurePosixPath(source.path).parent) for source in sources)
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def module_lines(sources: Iterable[Source]) -> Spread:
    return spread(len(source.lines) for source in sources)


def function_lines(sources: Iterable[Source]) -> Spread:
    """From `def` to the end; nested functions count too."""
    functions = (node for source in sources for node in source.nodes)
    return spread(
        (node.end_lineno or node.lineno) - node.lineno + 1
        for node in functions
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )


def spread(counts: Iterable[int]) -> Spread:
    ordered = sorted(counts)
    if not ordered:
        return Spread(0, 0, 0)
    return Spread(*(ordered[math.ceil(share * len(ordered)) - 1] for share in (0.5, 0.9, 1.0)))
