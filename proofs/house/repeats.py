"""Blocks of code that occur more than once."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final

from house.source import Source

SHORTEST: Final = 6
"""Lines of a block."""
WORD: Final = re.compile(r"\w")

Line = tuple[int, str]
Position = tuple[int, int]
"""Indices of a file and a line."""


@dataclass(frozen=True, slots=True)
class Repeat:
    """Two places (`path:line`) with the same block, and its lines."""

    first: str
    second: str
    lines: int


def repeats(sources: Iterable[Source]) -> list[Repeat]:
    """Every pair of places with SHORTEST equal lines or more, the longest first.

    Blank lines, comments, docstrings, imports and punctuation are skipped. Three places make three pairs; two places in
    one file do not overlap.
    """
    files = [(source.path, _lines(source)) for source in sources]
    texts = [[text for _, text in lines] for _, lines in files]
    found = []
    for first, second in _starts(texts):
        places = [f"{files[file][0]}:{files[file][1][line][0]}" for file, line in (first, second)]
        if (length := _length(texts, first, second)) >= SHORTEST:
            found.append(Repeat(places[0], places[1], length))
    return sorted(found, key=lambda repeat: (-repeat.lines, repeat.first, repeat.second))


def _lines(source: Source) -> list[Line]:
    return [(n, text) for n, text in source.code.items() if n not in source.import_lines and WORD.search(text)]


def _starts(texts: Sequence[Sequence[str]]) -> Iterator[tuple[Position, Position]]:
    """Pairs of equal windows without equal lines before."""
    windows: dict[tuple[str, ...], list[Position]] = defaultdict(list)
    for file, lines in enumerate(texts):
        for line in range(len(lines) - SHORTEST + 1):
            windows[tuple(lines[line : line + SHORTEST])].append((file, line))
    for places in windows.values():
        for (a, i), (b, j) in combinations(places, 2):
            if i == 0 or j == 0 or texts[a][i - 1] != texts[b][j - 1]:
                yield (a, i), (b, j)


def _length(texts: Sequence[Sequence[str]], first: Position, second: Position) -> int:
    (a, i), (b, j) = first, second
    limit = min(len(texts[a]) - i, len(texts[b]) - j)
    if a == b:
        limit = min(limit, j - i)
    return next((n for n in range(limit) if texts[a][i + n] != texts[b][j + n]), limit)
