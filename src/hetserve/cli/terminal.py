"""Blocks of labelled lines and tables as text; coloured only on a terminal."""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

_PLAIN_WIDTH = 120


@dataclass(frozen=True, slots=True)
class Block:
    """A title, lines of (label, text), and tables below them."""

    title: str
    lines: tuple[tuple[str, str], ...]
    tables: tuple[Table, ...] = ()


def text_of(blocks: Sequence[Block]) -> str:
    """Text that ends with a newline."""
    terminal = sys.stdout.isatty()
    buffer = io.StringIO()
    console = Console(file=buffer, force_terminal=terminal, width=None if terminal else _PLAIN_WIDTH, highlight=False)
    for number, block in enumerate(blocks):
        if number:
            console.print()
        console.print(Text(block.title, style="bold"))
        for label, text in block.lines:
            grid = Table.grid(padding=(0, 1))
            grid.add_column(width=11)
            grid.add_column(overflow="fold")
            grid.add_row(Text(f"  {label}", style="dim"), Text(text))
            console.print(grid)
        for table in block.tables:
            console.print(Padding(table, (1, 0, 0, 2)))
    return "\n".join(line.rstrip() for line in buffer.getvalue().splitlines()) + "\n"
