"""Turns of test processes that share one thing: one of them has it alone, or several have it side by side."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def turn(lock: Path, *, alone: bool = True) -> Iterator[None]:
    """Waits for a turn and has it during the block. lock: a file that stands for the thing; made where missing."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        yield


@contextmanager
def first_of_run(mark: Path, run: str) -> Iterator[bool]:
    """Whether no process of this run was here before; the others wait until the block ends.

    mark: a file that names the last run. If the block raises, the next process is the first.
    """
    with turn(mark):
        first = mark.read_text() != run
        yield first
        if first:
            mark.write_text(run)
