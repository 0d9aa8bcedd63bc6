"""Requests over HTTP/2 with their answers, and the bound on answers that clients do not take."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field

from hetserve_shell.http.limits import Handler

log = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class Exchange:
    """A request that came whole or in part, and its answer until all of it is sent.

    since: when it began, came whole, or its answer went on last [s]. answer: None: there is none yet. sent: bytes of
    it; noted: of these, when it went on last.
    """

    stream: int
    since: float
    handler: Handler
    head_only: bool
    parts: list[bytes] = field(default_factory=list)
    size: int = 0
    received: bool = False
    answer: bytes | None = None
    sent: int = 0
    noted: int = 0


class Unsent:
    """Answers that clients have not taken, on all connections of a server.

    Beyond `limit` bytes the one goes that has stood still longest. used: bytes of those that are kept.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0
        self._kept: dict[Exchange, Callable[[Exchange], None]] = {}
        """The one that has stood still longest comes first."""

    def keep(self, exchange: Exchange, give_up: Callable[[Exchange], None]) -> None:
        """give_up: ends the answer, and releases it, for those that go on."""
        self._kept[exchange] = give_up
        self.used += len(exchange.answer or b"")
        while self.used > self.limit:
            longest, give_up = next(iter(self._kept.items()))
            log.warning("more than %d bytes of answers are not taken: one is given up", self.limit)
            give_up(longest)

    def went_on(self, exchange: Exchange) -> None:
        """Notes that a client has taken some of an answer."""
        if give_up := self._kept.pop(exchange, None):
            self._kept[exchange] = give_up

    def release(self, exchange: Exchange) -> None:
        if self._kept.pop(exchange, None):
            self.used -= len(exchange.answer or b"")
