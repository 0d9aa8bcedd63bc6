"""What a process has fenced of one service, in its present term."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from hetserve.reconcile import Fenced

LANDED_BY: Final = 75.0
"""Seconds after which no request from before can land: the API server ends requests after 60 s."""


@dataclass(slots=True)
class ServiceFence:
    """Stamp and cleared Deployments of one service; times are monotonic seconds.

    A new term draws a new stamp, and so does a change without an answer: the API server ignores a stamp that is
    already there, and then the resourceVersion stays.
    """

    _term: int | None = None
    _stamp: str = ""
    _cleared: set[str] = field(default_factory=set)
    _refused: dict[str, float] = field(default_factory=dict)

    def begin(self, term: int, new_stamp: Callable[[], str]) -> None:
        """Begins anew in another term, or after `lapse`."""
        if self._term != term:
            self._term, self._stamp = term, new_stamp()
            self._cleared, self._refused = set(), {}

    def clear(self, uid: str) -> None:
        """Notes a Deployment that no earlier request can change: it was fenced, or created in this term."""
        self._cleared.add(uid)

    def keep(self, uids: Iterable[str]) -> None:
        """Forgets the Deployments that are gone."""
        self._cleared.intersection_update(uids)

    def refuse(self, uid: str, now: float) -> None:
        """Notes that the API server refuses to fence a Deployment; after LANDED_BY it counts as cleared."""
        self._refused.setdefault(uid, now)

    def lapse(self) -> None:
        """Notes a change without an answer, which may still land."""
        self._term = None

    def fenced(self, now: float) -> Fenced:
        waited = {uid for uid, since in self._refused.items() if now - since >= LANDED_BY}
        return Fenced(self._stamp, frozenset(self._cleared | waited))
