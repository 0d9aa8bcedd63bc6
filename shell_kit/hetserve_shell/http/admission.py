"""Bounds the open connections of a server."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Generic, Protocol, TypeVar

log = logging.getLogger(__name__)


class Bounded(Protocol):
    """A connection that can be compared and closed."""

    @property
    def worth(self) -> tuple[bool, bool, float]:
        """Whether it is being answered, has been answered, and since when it is idle [s]; greater stays."""
        ...

    def abort(self) -> None: ...


Member = TypeVar("Member", bound=Bounded)


class Admission(Generic[Member]):
    """The open connections of the server `name`, at most `limit`. Idle ones are closed first."""

    def __init__(self, limit: int, name: str) -> None:
        self._limit = limit
        self._name = name
        self._open: set[Member] = set()
        self._dropped = 0

    def __len__(self) -> int:
        return len(self._open)

    def __iter__(self) -> Iterator[Member]:
        """A copy: iterating may close connections."""
        return iter(list(self._open))

    def admit(self, connection: Member) -> None:
        """Adds a connection; at the limit, closes the one worth least."""
        if len(self._open) >= self._limit:
            least = min(self._open, key=lambda other: other.worth)
            self._open.discard(least)  # `release` comes a turn later
            least.abort()
            self._dropped += 1
        self._open.add(connection)

    def release(self, connection: Member) -> None:
        self._open.discard(connection)

    def log_dropped(self) -> None:
        """Logs how many were closed since the last call."""
        if self._dropped:
            log.warning("%s: more than %d connections: %d closed", self._name, self._limit, self._dropped)
            self._dropped = 0
