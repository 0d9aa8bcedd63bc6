"""Words of docstrings, comments and the pages of docs/."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from house.source import Source


@dataclass(frozen=True, slots=True)
class Prose:
    """Words in docstrings and comments, and lines of code."""

    words: int
    code_lines: int

    @property
    def per_hundred_lines(self) -> float:
        return 100 * self.words / self.code_lines if self.code_lines else 0.0


@dataclass(frozen=True, slots=True)
class Page:
    name: str
    words: int


def prose_of(sources: Iterable[Source]) -> Prose:
    """Every docstring, and every comment that is not for a tool."""
    words = code = 0
    for source in sources:
        words += sum(words_in(ast.literal_eval(node.value)) for node in source.docstrings)
        words += sum(words_in(comment.string) for comment in source.comments)
        code += len(source.code)
    return Prose(words, code)


def pages_of(folder: Path) -> tuple[Page, ...]:
    """Markdown pages directly in a folder, the longest first."""
    pages = (Page(path.name, words_in(path.read_text())) for path in folder.glob("*.md"))
    return tuple(sorted(pages, key=lambda page: (-page.words, page.name)))


def words_in(text: str) -> int:
    """Runs of non-blank characters that hold a letter or a digit."""
    return sum(any(character.isalnum() for character in word) for word in text.split())
