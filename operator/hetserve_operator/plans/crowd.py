"""When tried plans wait for a crowd of new services, each of which needs an untried plan and looks."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Final

CROWDED: Final = 5.0
"""Seconds for which a crowd goes on after a service has come that got no patience: the next may be near."""
HOLDS: Final = 30.0
"""Seconds of a crowd in which no tried plan begins; later each process that finds no untried one to make takes one."""
CROWD_AT_MOST: Final = 60.0
"""Seconds after which a crowd is over, however many come."""


@dataclass(slots=True)
class Crowd:
    """New services that come faster than they can be planned. The next one begins after a pause as long as it was."""

    _began: float = -inf
    _until: float = -inf
    _pause_until: float = -inf

    def grow(self, now: float) -> None:
        """Another service has come that got no patience."""
        if not self.is_there(now):
            if now < self._pause_until:
                return
            self._began = now
        self._until = min(now + CROWDED, self._began + CROWD_AT_MOST)
        self._pause_until = self._until + (self._until - self._began)

    def is_there(self, now: float) -> bool:
        return now < self._until

    @property
    def holds_until(self) -> float:
        """Until when no tried plan begins, if no other service comes."""
        return min(self._until, self._began + HOLDS)
