"""Lines on stderr, and exit codes."""

from __future__ import annotations

import sys
from typing import Final, NoReturn

import click

from hetserve.sanitize import sanitize

EXIT_BAD_INPUT: Final = 2
EXIT_INFEASIBLE: Final = 3


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
