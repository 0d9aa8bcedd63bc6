"""The placement log in memory: the latest records as JSON lines, always beginning with a whole state.

Two segments of which the older is dropped when the newer is full: each begins with a header and a checkpoint of
the ledger, so that what is served can be replayed from its first line.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

import orjson

from hetserve.placement.journal import JournaledPlacer, Record
from hetserve.units import Seconds

_OVERHEAD: Final = 64
"""Bytes that Python keeps for a line beside its text."""


class PlacementLog:
    """At most about `limit` bytes of records, and two checkpoints on top, which grow with the cluster."""

    def __init__(self, limit: int, wall: Callable[[], float] = time.time) -> None:
        self._half = limit // 2
        self._wall = wall
        self._placer: JournaledPlacer | None = None
        self._older: list[bytes] = []
        self._newer: list[bytes] = []
        self._size = 0

    def placer(self, clock: Callable[[], Seconds], hold: Seconds, **settings: Any) -> JournaledPlacer:
        """The state machine that writes here."""
        self._placer = JournaledPlacer(clock, hold, self.write, **settings)
        self._begin(self._placer)
        return self._placer

    def write(self, record: Record) -> None:
        """Take a record of a call that has ended."""
        line = orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE)
        self._newer.append(line)
        self._size += len(line) + _OVERHEAD
        if self._size > self._half and self._placer is not None:
            self._older = self._newer
            self._begin(self._placer)

    def content(self) -> bytes:
        """The log from its oldest record on: of the newer segment only the records follow the older one's."""
        newer = self._newer[2:] if self._older else self._newer
        return b"".join([*self._older, *newer])

    def _begin(self, placer: JournaledPlacer) -> None:
        """Begin a segment; the size counts what comes after the checkpoint."""
        state = placer.journaled.checkpoint()
        self._newer = [
            orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE) for record in (placer.header(self._wall()), state)
        ]
        self._size = 0
