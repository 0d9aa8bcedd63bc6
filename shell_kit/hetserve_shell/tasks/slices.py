"""Long work on the loop that answers the verbs, cut into slices between which verbs are answered.

Rejected: another thread. It wants the interpreter's lock, and every call-back of the loop then waits for it anew:
with 10,000 pods and two who ask for `/metrics` again and again filter took 17 ms, 100 at times; so it takes 0.6.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

T = TypeVar("T")

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


class Shared(Generic[T]):
    """Makes an answer once for all who ask before it is begun: however many ask, one is made at a time."""

    def __init__(self, make: Callable[[], Awaitable[T]]) -> None:
        self._make = make
        self._waiting: asyncio.Task[T] | None = None
        self._making = asyncio.Lock()

    async def answer(self) -> T:
        """What is made at a moment after the call."""
        if self._waiting is None:
            self._waiting = asyncio.create_task(self._next())
        return await asyncio.shield(self._waiting)  # who goes away leaves the others theirs

    async def _next(self) -> T:
        async with self._making:
            self._waiting = None
            return await self._make()
