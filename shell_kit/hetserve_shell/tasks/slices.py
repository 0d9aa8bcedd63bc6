"""Long work in slices, between which the event loop serves others.

A thread would compete for the interpreter's lock: under load, latency rose from 0.6 to 17 ms.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

T = TypeVar("T")

BLOCK: Final = 64 << 10
"""Least bytes of a block."""
SLICE: Final = 0.0005
"""Seconds of work in one slice, and of the pause after it."""


@dataclass(slots=True)
class Slices:
    """The slices of one piece of work; the first begins now."""

    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
    clock: Callable[[], float] = time.perf_counter
    _began: float = 0.0

    def __post_init__(self) -> None:
        self._began = self.clock()

    async def turn(self) -> None:
        """Yields to the event loop if the slice is used up; call after every small step."""
        if self.clock() - self._began > SLICE:
            await self.sleep(SLICE)
            self._began = self.clock()


async def in_blocks(pieces: Iterable[bytes], slices: Slices) -> list[bytes]:
    """A text in blocks of at least BLOCK bytes, from small pieces, each made in a slice."""
    blocks, block = list[bytes](), bytearray()
    for piece in pieces:
        block += piece
        if len(block) >= BLOCK:
            blocks.append(bytes(block))
            block.clear()
        await slices.turn()
    return [*blocks, bytes(block)]


class Shared(Generic[T]):
    """Computes an answer once for all callers who ask before it begins."""

    def __init__(self, make: Callable[[], Awaitable[T]]) -> None:
        self._make = make
        self._waiting: asyncio.Task[T] | None = None
        self._making = asyncio.Lock()

    async def answer(self) -> T:
        if self._waiting is None:
            self._waiting = asyncio.create_task(self._next())
        return await asyncio.shield(self._waiting)  # a cancelled caller leaves the others theirs

    async def _next(self) -> T:
        async with self._making:
            self._waiting = None
            return await self._make()
