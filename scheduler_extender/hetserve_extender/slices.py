"""Long work on the loop that answers the verbs, cut into slices between which verbs are answered.

Rejected: another thread. It wants the interpreter's lock, and every call-back of the loop then waits for it anew:
with two askers of `/metrics` a turn of the loop took up to 100 ms, one without them 0.5 ms.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

SLICE: Final = 0.0005
"""Seconds of work in one piece; then as much for others."""


@dataclass(slots=True)
class Slices:
    """The slices of one piece of work; the first begins now."""

    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
    clock: Callable[[], float] = time.perf_counter
    _began: float = 0.0

    def __post_init__(self) -> None:
        self._began = self.clock()

    async def turn(self) -> None:
        """Give others their turn if this slice is over; to be called after every little step."""
        if self.clock() - self._began > SLICE:
            await self.sleep(SLICE)
            self._began = self.clock()
