"""Turns of test processes that share one thing: one of them has it alone, or several have it side by side."""

from __future__ import annotations

import fcntl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TextIO

LIMIT: Final = 1800.0
PAUSE: Final = 0.1
"""Both in seconds."""


@contextmanager
def turn(lock: Path, *, alone: bool = True) -> Iterator[None]:
    """Waits for a turn and has it during the block. lock: a file that stands for the thing; made where missing.

    Raises TimeoutError after LIMIT: somebody stands still who has it.
    """
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("a") as file:
        deadline = time.monotonic() + LIMIT
        while not _locked(file, alone):
            if time.monotonic() > deadline:
                raise TimeoutError(f"somebody has had {lock} for {LIMIT:g} s")
            time.sleep(PAUSE)
        yield


def _locked(file: TextIO, alone: bool) -> bool:
    try:
        fcntl.flock(file, (fcntl.LOCK_EX if alone else fcntl.LOCK_SH) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


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
