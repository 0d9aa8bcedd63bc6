"""The placement log in memory: the latest records as JSON lines.

Has two segments; a full one replaces the older. Each begins with a header and a checkpoint of the ledger, so the log
can be replayed from its first line (decision 0036).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any, Final

import orjson

from hetserve.base.units import Seconds
from hetserve.placement.log.journal import JournaledPlacer, Record
from hetserve_shell.tasks.slices import Shared, Slices, in_blocks

_OVERHEAD: Final = 64
"""Bytes of a line beside its text."""
_TURN: Final = 50
"""Entries of a list between two turns: 0.1 ms."""


class _Long:
    """A long record: immutable values until its text is written."""

    __slots__ = ("record", "text")

    def __init__(self, record: Record) -> None:
        self.record = record
        self.text: list[bytes] = []

    def pieces(self) -> Iterator[bytes]:
        if self.text:
            yield from self.text
            return
        yield from _pieces(self.record, nested=3)
        yield b"\n"

    async def settle(self, slices: Slices) -> int:
        """Replaces the values by their text, a seventh of the memory; returns its bytes."""
        text = list[bytes]()
        for piece in self.pieces():
            text.append(piece)
            await slices.turn()
        dropped = [entry for value in self.record["args"].values() if isinstance(value, list) for entry in value]
        self.text, self.record = text, {}
        while dropped:  # 18,000 at once: 17 ms
            del dropped[-_TURN:]
            await slices.turn()
        return sum(map(len, text)) + _OVERHEAD * len(text)


class PlacementLog:
    """At most about `limit` bytes of records, plus two checkpoints."""

    def __init__(self, limit: int, wall: Callable[[], float] = time.time) -> None:
        self._half = limit // 2
        self._wall = wall
        self._placer: JournaledPlacer | None = None
        self._older: list[bytes | _Long] = []
        self._newer: list[bytes | _Long] = []
        self._size = 0
        self._unsettled: list[_Long] = []
        self._wake = asyncio.Event()
        self._texts = Shared(self._text)

    @property
    def settled(self) -> bool:
        """Whether every record is written."""
        return not self._unsettled

    def placer(self, clock: Callable[[], Seconds], hold: Seconds, **settings: Any) -> JournaledPlacer:
        self._placer = JournaledPlacer(clock, hold, self.write, **settings)
        self._begin(self._placer)
        return self._placer

    def write(self, record: Record) -> None:
        if any(isinstance(value, list) and len(value) > _TURN for value in record["args"].values()):
            self._unsettled.append(long := _Long(record))
            self._newer.append(long)
            self._wake.set()
        else:
            line = _line(record)
            self._newer.append(line)
            self._size += len(line) + _OVERHEAD
        if self._size > self._half and self._placer is not None:
            self._older = self._newer
            self._begin(self._placer)

    async def run(self) -> None:
        """Writes long records in slices. Never returns."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            slices = Slices()
            while self._unsettled:
                self._size += await self._unsettled[0].settle(slices)
                del self._unsettled[0]

    async def text(self) -> list[bytes]:
        """The whole log after the call, in blocks."""
        return await self._texts.answer()

    def pieces(self) -> Iterator[bytes]:
        newer = self._newer[2:] if self._older else self._newer  # without header and checkpoint
        lines = [*self._older, *newer]
        return chain.from_iterable((line,) if isinstance(line, bytes) else line.pieces() for line in lines)

    async def _text(self) -> list[bytes]:
        return await in_blocks(self.pieces(), Slices())

    def _begin(self, placer: JournaledPlacer) -> None:
        """Begins a segment; its size excludes the checkpoint."""
        self._newer = [_line(placer.header(self._wall())), _Long(placer.journaled.checkpoint())]
        self._size = 0


def _line(record: Record) -> bytes:
    return orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE)


def _pieces(value: Any, nested: int = 0) -> Iterator[bytes]:
    """JSON of a value; lists, and objects down to `nested` levels, in small steps."""
    if isinstance(value, list) and len(value) > _TURN:
        for start in range(0, len(value), _TURN):
            yield (b"," if start else b"[") + orjson.dumps(value[start : start + _TURN])[1:-1]
        yield b"]"
    elif isinstance(value, dict) and value and nested:
        for number, (key, item) in enumerate(value.items()):
            yield (b"," if number else b"{") + orjson.dumps(key) + b":"
            yield from _pieces(item, nested - 1)
        yield b"}"
    else:
        yield orjson.dumps(value)
