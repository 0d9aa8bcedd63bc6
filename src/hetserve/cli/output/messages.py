"""What a command says beside its answer: a line each on stderr, all of whose characters show."""

from __future__ import annotations

import click

from hetserve.sanitize import sanitize


def error(message: str) -> None:
    """Why something cannot be done, in the form in which click says it."""
    _say(f"Error: {message}")


def note(message: str) -> None:
    """What is worth knowing about an answer."""
    _say(f"note: {message}")


def _say(line: str) -> None:
    click.echo(sanitize(line), err=True)
