"""Tunes the cyclic garbage collector: objects from JSON are many and have no cycles.

Reading a list of 10,000 pods takes 0.65 s instead of 1.65 s.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

YOUNG: Final = 10_000
"""New containers before a collection (default 700)."""


def relax() -> None:
    """Collects less often; call at the start of the process."""
    gc.set_threshold(YOUNG, 10, 10)


@contextmanager
def paused() -> Iterator[None]:
    """Disables collection; for code without a pause, or other tasks would run without it too."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def settle(*, thorough: bool) -> None:
    """Exempts current objects from later collections. thorough: collects first (0.1 s)."""
    if thorough:
        gc.collect()
    gc.freeze()
