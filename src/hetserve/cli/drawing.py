"""Pictures of answers: what goes wrong with one ends the command in words."""

from __future__ import annotations

from collections.abc import Callable

from hetserve.cli.problems import refuse


def draw_or_refuse(draw: Callable[[], None], path: str) -> None:
    """Draw to the path; a library that is missing, or what the file system says against it, ends the command."""
    try:
        draw()
    except ImportError as error:
        refuse(f"--plot needs {error.name}: install hetserve[plot]")
    except OSError as error:
        refuse(f"--plot {path}: cannot be written: {error.strerror}")
