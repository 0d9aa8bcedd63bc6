"""Progress on a terminal, on stderr; silent where nobody watches."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress

    from hetserve.simulation import Trial


@contextmanager
def trials(label: str) -> Iterator[Callable[[Trial], None] | None]:
    """Callback that shows each rate tried; how many there will be is not known."""
    if not sys.stderr.isatty():
        yield None
        return
    with _progress() as progress:
        task = progress.add_task(label, total=None)

        def note(trial: Trial) -> None:
            word = "holds" if trial.passed else "late"
            progress.update(task, description=f"{label}: {trial.rate:.4g} q/s {word}", advance=1)

        yield note


@contextmanager
def steps(label: str, total: int | None) -> Iterator[Callable[[str], None]]:
    """Callback that counts steps of which the number is known, each with a word on it; None: it is not."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    with _progress() as progress:
        task = progress.add_task(label, total=total)
        yield lambda text: progress.update(task, description=f"{label}: {text}", advance=1)


def _progress() -> Progress:
    from rich.console import Console  # noqa: PLC0415
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn  # noqa: PLC0415

    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.completed:.0f}"),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
    )
