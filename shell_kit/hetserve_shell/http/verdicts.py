"""Verdicts about callers that are kept for a short time."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from hetserve_shell.http.limits import HttpError

ADMITTED_FOR: Final = 60.0
"""Seconds: so long at most does somebody read on whose token was revoked."""
REFUSED_FOR: Final = 10.0
"""Seconds: so long at most does somebody wait to whom a right was given."""
MOST: Final = 512
"""Verdicts of each kind that are kept."""

Key = tuple[bytes, str]
"""SHA-256 of a token, and a path."""


def key_of(token: str, path: str) -> Key:
    """What a verdict is kept by: not the token, which would then stand in memory for as long as the verdict."""
    return hashlib.sha256(token.encode()).digest(), path


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a caller may not: 401 or 403, and words without the token."""

    status: HTTPStatus
    words: str

    def error(self) -> HttpError:
        return HttpError(self.status, self.words)


Verdict = Refusal | None
"""None: the caller may."""


class Verdicts:
    """Verdicts by token and path, the oldest of which make room.

    clock: seconds, that never go back. admitted_for, refused_for: seconds. most: of each kind; who sends many wrong
    tokens takes no room of those who are let through.
    """

    def __init__(
        self,
        clock: Callable[[], float],
        *,
        admitted_for: float = ADMITTED_FOR,
        refused_for: float = REFUSED_FOR,
        most: int = MOST,
    ) -> None:
        self._clock = clock
        self._admitted = _Kept(admitted_for, most)
        self._refused = _Kept(refused_for, most)

    def __len__(self) -> int:
        return len(self._admitted.entries) + len(self._refused.entries)

    def find(self, key: Key) -> tuple[bool, Verdict]:
        """Whether a verdict stands, and which."""
        now = self._clock()
        for kept in (self._refused, self._admitted):
            entry = kept.entries.get(key)
            if entry is not None and now < entry[0] + kept.seconds:
                return True, entry[1]
        return False, None

    def keep(self, key: Key, verdict: Verdict, asked_at: float) -> None:
        """Keeps a verdict. asked_at: when its reviews began, by our clock [s]: what they say may be as old as that."""
        for kept in (self._refused, self._admitted):
            kept.entries.pop(key, None)
        (self._admitted if verdict is None else self._refused).put(key, verdict, asked_at)


class _Kept:
    """Verdicts of one kind in the order in which they were asked for."""

    def __init__(self, seconds: float, most: int) -> None:
        self.seconds = seconds
        self.entries: OrderedDict[Key, tuple[float, Verdict]] = OrderedDict()
        self._most = most

    def put(self, key: Key, verdict: Verdict, asked_at: float) -> None:
        self.entries[key] = asked_at, verdict
        while len(self.entries) > self._most:
            self.entries.popitem(last=False)
