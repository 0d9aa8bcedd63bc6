"""The hetserve command."""

from __future__ import annotations


def main() -> None:
    """Runs the console script."""
    # Imported late, so that an import of hetserve.cli does not load click.
    from hetserve.cli.app import app  # noqa: PLC0415

    app(prog_name="hetserve")
