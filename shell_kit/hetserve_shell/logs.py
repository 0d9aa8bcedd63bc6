"""Bounds repeated warnings and errors in the log."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, TextIO

AT_MOST: Final = 20
"""Lines of one kind in an interval."""
INTERVAL: Final = 10.0  # seconds
KINDS: Final = 50
"""Kinds in an interval; more share one."""
_OTHERS: Final = "other messages"
_WORDS: Final = 100

Kind = tuple[str, int, str]
"""Logger, level and start of the message before its arguments, which clients may choose."""


@dataclass(slots=True)
class Repeats:
    """Selects the records to write, by kind. clock: monotonic [s]."""

    clock: Callable[[], float] = time.monotonic
    _since: float = 0.0
    _counts: dict[Kind, int] = field(default_factory=dict)

    def take(self, logger: str, level: int, message: str) -> bool:
        """Whether to write one more of this kind; call `over` first."""
        kind = (logger, level, message.partition("\n")[0][:_WORDS])
        if kind not in self._counts and len(self._counts) >= KINDS:
            kind = (logger, level, _OTHERS)
        count = self._counts[kind] = self._counts.get(kind, 0) + 1
        return count <= AT_MOST

    def over(self) -> dict[Kind, int]:
        """After an interval: the number left out by kind. Starts the next one."""
        now = self.clock()
        if now - self._since < INTERVAL:
            return {}
        self._since = now
        return self.left_out()

    def left_out(self) -> dict[Kind, int]:
        """The number left out by kind so far; resets it."""
        counts, self._counts = self._counts, {}
        return {kind: count - AT_MOST for kind, count in counts.items() if count > AT_MOST}


class BoundedHandler(logging.StreamHandler[TextIO]):
    """Writes at most AT_MOST warnings or errors of one kind in INTERVAL seconds, then how many it left out.

    That line follows with the next record or at the end.
    """

    def __init__(self, stream: TextIO, repeats: Repeats | None = None) -> None:
        super().__init__(stream)
        self._repeats = repeats or Repeats()

    def emit(self, record: logging.LogRecord) -> None:
        self._tell(self._repeats.over())
        if record.levelno < logging.WARNING or self._repeats.take(record.name, record.levelno, str(record.msg)):
            super().emit(record)

    def close(self) -> None:
        self.acquire()
        try:
            self._tell(self._repeats.left_out())
        finally:
            self.release()
        super().close()

    def _tell(self, left_out: dict[Kind, int]) -> None:
        for (name, level, words), count in left_out.items():
            text = f"{count} more like this were left out: {words}"
            super().emit(logging.LogRecord(name, level, "", 0, text, None, None))
