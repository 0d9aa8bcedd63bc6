"""Progress bar on stderr, if it is a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from hetserve.sanitize import sanitize

if TYPE_CHECKING:
    from rich.progress import Progress

    from hetserve.simulation.allowable import RateTrial

_SHOWN_EACH: Final = 600
"""Seconds of virtual time."""
COMPILING: Final = "compiling (kept on disk for the next time)"


@dataclass(slots=True)
class Steps:
    """Progress on a terminal; without a `bar` it shows nothing. `bar`, `task`: of rich."""

    label: str = ""
    bar: Progress | None = None
    task: Any = None

    def at_most(self, most: int) -> None:
        """Sets the most steps."""
        if self.bar is not None:
            self.bar.update(self.task, total=most, most=f" of at most {most}")

    def done(self, text: str) -> None:
        """Counts a step with its result."""
        self.busy(text, advance=1)

    def tried(self, trial: RateTrial) -> None:
        """A trial within a step."""
        self.busy(_trial_text(trial))

    def each_trial(self, trial: RateTrial) -> None:
        """A trial that is a step."""
        self.done(_trial_text(trial))

    def reached(self, moment: float) -> None:
        """A moment of virtual time [s]; each counts as the time since the last."""
        if moment % _SHOWN_EACH == 0:
            self.busy(f"{moment / 3600:.1f} h", advance=_SHOWN_EACH)

    def compiling(self, began: bool) -> None:
        """Compilation can take as long as a search."""
        self.busy(COMPILING if began else "simulating")
        if self.bar is not None:
            self.bar.refresh()  # the compiler blocks the drawing thread

    def busy(self, text: str, advance: int = 0) -> None:
        """What goes on, after `advance` more steps."""
        if self.bar is not None:
            self.bar.update(self.task, description=sanitize(f"{self.label}: {text}"), advance=advance)


@contextmanager
def steps(label: str, most: int | None = None) -> Iterator[Steps]:
    """Progress bar of at most `most` steps; None: unknown."""
    if not sys.stderr.isatty():
        yield Steps()
        return
    from hetserve.compiled import compilations  # noqa: PLC0415

    with _progress() as bar:
        shown = Steps(label, bar, bar.add_task(sanitize(label), total=None, most=""))
        if most is not None:
            shown.at_most(most)
        with compilations(shown.compiling):
            yield shown


def _trial_text(trial: RateTrial) -> str:
    return f"{trial.rate:.4g} q/s {'holds' if trial.passed else 'late'}"


def _progress() -> Progress:
    from rich.console import Console  # noqa: PLC0415
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn  # noqa: PLC0415

    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.completed:.0f}{task.fields[most]}"),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
    )
