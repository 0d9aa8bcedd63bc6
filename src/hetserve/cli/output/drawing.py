"""Pictures of answers: what goes wrong with one ends the command in words."""

from __future__ import annotations

from collections.abc import Callable

from hetserve.cli.capacity.inputs import refuse


def draw_or_refuse(draw: Callable[[], None], path: str) -> None:
    """Draw to the path; what the file system says against it ends the command."""
    try:
        draw()
    except OSError as error:
        refuse(f"--plot {path}: cannot be written: {error.strerror}")
