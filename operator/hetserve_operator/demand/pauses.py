"""Questions that fail again and again are asked ever more seldom."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from hetserve_operator.workqueue import Key

LONGEST_PAUSE: Final = 300.0
"""Seconds until a question that fails again and again is asked once more."""

Question = TypeVar("Question")


@dataclass(frozen=True, slots=True)
class _Failures(Generic[Question]):
    """In a row, of a question. until: not asked before [s]."""

    question: Question
    count: int
    until: float


class Pauses(Generic[Question]):
    """Services whose questions have failed. interval: seconds between two polls; clock: seconds."""

    def __init__(self, clock: Callable[[], float], interval: float) -> None:
        self._clock = clock
        self._interval = interval
        self._of: dict[Key, _Failures[Question]] = {}

    def __contains__(self, key: Key) -> bool:
        """Whether the last question of a service has failed."""
        return key in self._of

    def keep(self, keys: Collection[Key]) -> None:
        """Forgets all other services."""
        self._of = {key: failed for key, failed in self._of.items() if key in keys}

    def is_due(self, key: Key, question: Question) -> bool:
        """Whether to ask; another question than the one that failed at once."""
        failed = self._of.get(key)
        return failed is None or failed.question != question or failed.until <= self._clock()

    def fail(self, key: Key, question: Question) -> None:
        """Doubles the pause of a service, from one interval on."""
        count = self._of[key].count + 1 if key in self._of else 1
        pause = min(self._interval * 2.0 ** (count - 1), LONGEST_PAUSE)
        self._of[key] = _Failures(question, count, self._clock() + pause - self._interval / 2)

    def note(self, key: Key, question: Question) -> None:
        """A part of its question has failed, so that it is asked again without a pause."""
        self._of[key] = _Failures(question, 0, self._clock())

    def settle(self, keys: Collection[Key]) -> None:
        """Their questions were answered."""
        for key in keys:
            self._of.pop(key, None)
