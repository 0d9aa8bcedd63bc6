"""The hetserve command."""

from __future__ import annotations


def main() -> None:
    """Entry point of the console script."""
    # Imported late: whoever imports hetserve.cli for one of its parts need not load click.
    from hetserve.cli.app import app  # noqa: PLC0415

    app(prog_name="hetserve")
