"""The measures as a Markdown table and as lists."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import PurePosixPath
from typing import Final

from rich import box
from rich.console import Console
from rich.table import Table

from house.extension import MEMBERS
from house.measure import House
from house.prose import Page
from house.repeats import SHORTEST
from house.tree import ROOTS

WIDTH: Final = 200
"""Wider than any row: Markdown breaks where a cell wraps."""
FULLEST: Final = 3
"""Folders in the table."""

Cell = Callable[[House], str]


def table(houses: Mapping[str, House]) -> str:
    """`houses`: measures by the heading of a column."""
    drawn = Table("", *houses, box=box.MARKDOWN)
    for label, cell in _rows():
        drawn.add_row(label, *(cell(house) for house in houses.values()))
    out = io.StringIO()
    Console(file=out, width=WIDTH, highlight=False, markup=False).print(drawn)
    return "\n".join(line.rstrip() for line in out.getvalue().strip().splitlines())


def lists(house: House, most: int, files: bool) -> Iterator[str]:
    """At most `most` of each list; `files`: also what names a member."""
    yield from _section("Fullest folders", (f"{count} {folder}" for folder, count in house.folders.items()), most)
    yield from _section("Import circles", map(" <-> ".join, house.circles), most)
    shared = sorted(house.shared_class_names.items(), key=lambda item: -len(item[1]))
    yield from _section("Class names", (f"{name}: {', '.join(modules)}" for name, modules in shared), most)
    blocks = (f"{repeat.lines} lines: {repeat.first} = {repeat.second}" for repeat in house.repeats)
    yield from _section("Repeated blocks", blocks, most)
    private = (f"{access.place} {access.name}" for access in house.private_accesses)
    yield from _section("Private accesses", private, most)
    if files:
        for family, extension in house.extensions.items():
            yield from _section(f"A {family}: by hand", extension.by_hand)
            yield from _section(f"A {family}: generated", extension.generated)
            yield from _section(f"A {family}: users", extension.users)


def _rows() -> Iterator[tuple[str, Cell]]:
    for root in ROOTS:
        yield f"lines of Python in {root}", _size(root)
    yield "fullest folders of the product, in modules", _fullest
    yield "lines of a module: median, greatest", lambda h: f"{h.modules.median}, {h.modules.greatest}"
    yield "lines of a function: median, 90 % have at most", lambda h: f"{h.functions.median}, {h.functions.p90}"
    yield "import circles", lambda h: f"{len(h.circles)}, with {sum(map(len, h.circles))} modules"
    for family in MEMBERS:
        yield f"files that name a {family}: by hand, generated, users", _extension(family)
    yield "private names that tests use", _private
    yield "words of docstrings and comments per 100 lines of code", lambda h: f"{h.prose.per_hundred_lines:.0f}"
    yield "words in docs/*.md", lambda h: _pages(h.guides)
    yield "words in docs/decisions", lambda h: _pages(h.decisions)
    yield "class names that are defined more than once", lambda h: str(len(h.shared_class_names))
    yield f"pairs of places with {SHORTEST} equal lines of code or more", lambda h: str(len(h.repeats))


def _size(root: str) -> Cell:
    def cell(house: House) -> str:
        return f"{house.sizes[root].lines:,} in {house.sizes[root].files} files"

    return cell


def _extension(family: str) -> Cell:
    def cell(house: House) -> str:
        extension = house.extensions[family]
        return f"{len(extension.by_hand)}, {len(extension.generated)}, {len(extension.users)}"

    return cell


def _fullest(house: House) -> str:
    fullest = list(house.folders.items())[:FULLEST]
    return ", ".join(f"{PurePosixPath(folder).name} {count}" for folder, count in fullest)


def _private(house: House) -> str:
    files = {access.place.rpartition(":")[0] for access in house.private_accesses}
    return f"{len(house.private_accesses)} times in {len(files)} files"


def _pages(pages: tuple[Page, ...]) -> str:
    longest = max((page.words for page in pages), default=0)
    return f"{sum(page.words for page in pages):,} in {len(pages)} pages, longest {longest:,}"


def _section(title: str, items: Iterable[str], most: int | None = None) -> Iterator[str]:
    found = list(items)
    yield f"\n{title} ({len(found)})"
    yield from (f"  {item}" for item in found[:most])
    if most is not None and len(found) > most:
        yield f"  and {len(found) - most} more"
