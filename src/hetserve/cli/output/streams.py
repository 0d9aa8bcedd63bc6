"""What commands write: JSON or YAML on stdout, lines on stderr, and exit codes."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

import click

from hetserve.sanitize import sanitize

if TYPE_CHECKING:
    from hetserve.cli.output.terminal import Block

EXIT_BAD_INPUT: Final = 2
EXIT_INFEASIBLE: Final = 3
FORMATS: Final = ("table", "json", "yaml")
"""Choices of `-o`; a table is no document."""


def error(message: str) -> None:
    _line(f"Error: {message}")


def note(message: str) -> None:
    _line(f"note: {message}")


def refuse(*errors: str) -> NoReturn:
    """Writes the errors, one per line, and exits with EXIT_BAD_INPUT."""
    for one in errors:
        error(one)
    sys.exit(EXIT_BAD_INPUT)


def _line(text: str) -> None:
    click.echo(sanitize(text), err=True)


def view_option(wide: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Option `-o` with a wide table; `wide`: its help."""
    choices = click.Choice(["table", "wide", "json", "yaml"])
    return click.option("-o", "--output", type=choices, default="table", show_default=True, help=wide)


def dump(documents: Sequence[dict[str, Any]], form: str, *, rows: bool = False) -> str:
    """Text in `form` (json, yaml) with a final newline. rows: YAML with a line for each entry of a table."""
    whole: Any = documents[0] if len(documents) == 1 else {"items": list(documents)}
    if form == "json":
        return json.dumps(whole, indent=2, allow_nan=False) + "\n"
    import yaml  # noqa: PLC0415

    style, width = (None, 200) if rows else (False, 110)
    return str(yaml.safe_dump(whole, sort_keys=False, allow_unicode=True, default_flow_style=style, width=width))


def write_or_print(text: str, output: str | None) -> None:
    """Writes a text to a file, or to stdout where there is none; exits where the file cannot be written."""
    if output is None:
        click.echo(text, nl=False)
        return
    try:
        Path(output).write_text(text, encoding="utf-8")
    except OSError as error:
        refuse(f"-o {output}: cannot be written: {error.strerror}")


def show(document: dict[str, Any], form: str, blocks: Callable[[], Sequence[Block]]) -> None:
    """Writes a document in `form` (json, yaml; else for people, as its blocks)."""
    if form in FORMATS[1:]:
        text = dump([document], form)
    else:
        from hetserve.cli.output.terminal import text_of  # noqa: PLC0415

        text = text_of(blocks())
    click.echo(text, nl=False)
