"""The hetserve command."""

from __future__ import annotations


def main() -> None:
    # Late, so that importing hetserve.cli loads no click.
    from hetserve.cli.app import app  # noqa: PLC0415

    app(prog_name="hetserve")
