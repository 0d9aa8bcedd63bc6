"""Renders labelled lines and tables; coloured only on a terminal.

Only this module passes text to rich: sanitized, without markup.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from hetserve.sanitize import sanitize

_PLAIN_WIDTH: Final = 120
_INDENT: Final = "  "
_LABEL: Final = 11
"""Least width of labels with indent."""
Styled = Text


@dataclass(frozen=True, slots=True)
class Block:
    """A title, lines of (label, text), and tables."""

    title: str
    lines: tuple[tuple[str, str], ...]
    tables: tuple[Table, ...] = ()


def text_of(blocks: Sequence[Block]) -> str:
    """The blocks as text: dimmed labels beside wrapped text, and tables below."""
    terminal, buffer = sys.stdout.isatty(), io.StringIO()
    width = None if terminal else _PLAIN_WIDTH
    console = _Console(file=buffer, force_terminal=terminal, width=width, highlight=False)
    for number, block in enumerate(blocks):
        if number:
            console.print()
        console.print(styled(block.title, "bold"))
        lines = Table.grid(padding=(0, 1))
        lines.add_column(width=max([_LABEL, *(len(_INDENT + label) for label, _ in block.lines)]))
        lines.add_column(overflow="fold")
        for label, text in block.lines:
            lines.add_row(styled(_INDENT + label, "dim"), text)
        if block.lines:
            console.print(lines)
        for table in block.tables:
            console.print(Padding(table, (1, 0, 0, 2)))
    return "\n".join(line.rstrip() for line in buffer.getvalue().splitlines()) + "\n"


def grid(*columns: str) -> Table:
    """An empty table without lines; a column whose name begins with > is set to the right."""
    table = Table(box=None, padding=(0, 2, 0, 0), show_edge=False)
    for name in columns:
        table.add_column(name.removeprefix(">"), justify="right" if name.startswith(">") else "left", overflow="fold")
    return table


def styled(text: str, style: str = "") -> Styled:
    return Text(sanitize(text), style)


class _Console(Console):
    """Interprets no markup, also when rich measures cells."""

    def render_str(self, text: str, *, style: Any = "", justify: Any = None, overflow: Any = None, **_: Any) -> Text:
        return Text(sanitize(text), style, justify=justify, overflow=overflow)


def duration_text(seconds: float) -> str:
    """In the largest unit of which there are two at least: ``90 s``, ``3 h``, ``2 days``."""
    for size, unit in ((86400, "days"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


def counted(count: int, what: str) -> str:
    """``1 pod``, ``2 pods``."""
    return f"{count} {what}{'' if count == 1 else 's'}"
