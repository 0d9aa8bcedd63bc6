"""Work queue of services: keyed, debounced, one worker per key, retries with backoff.

`DelayQueue` is a state machine without I/O; `WorkQueue` adds the waiting.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
from collections.abc import Callable
from typing import Final, NamedTuple

FIRST_RETRY: Final = 0.5
LONGEST_RETRY: Final = 30.0
IN_A_ROW: Final = 7
"""Urgent keys that are given out one after the other while others wait."""


class Key(NamedTuple):
    """Namespace and name of a service."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class DelayQueue:
    """Keys with due times. A key in work is not given out again before the work ends.

    Of those that are due, urgent ones come first, but not more than `IN_A_ROW` while others wait.
    """

    def __init__(self) -> None:
        self._due: dict[Key, float] = {}
        self._urgent: set[Key] = set()
        self._lanes: dict[bool, list[tuple[float, Key]]] = {True: [], False: []}
        """Heaps of the urgent ones and of the others."""
        self._in_a_row = 0
        self._working: set[Key] = set()
        self._failures: dict[Key, int] = {}
        self._not_before: dict[Key, float] = {}

    def add(self, key: Key, due: float, *, urgent: bool = False) -> None:
        """Schedules a key at `due` or earlier; an earlier due time is kept, and so is urgency.

        After a failure, this does not shorten the delay, since the event may stem from our own write; `renew` does.
        """
        due = max(due, self._not_before.get(key, due))
        known = self._due.get(key)
        moves = urgent and key not in self._urgent
        if moves:
            self._urgent.add(key)
        if known is None or due < known:
            self._due[key], moves = due, True
        if moves:
            heapq.heappush(self._lanes[key in self._urgent], (self._due[key], key))

    def pop(self, now: float) -> Key | None:
        """Takes the key that has been due longest and is not in work; it is in work from now on."""
        heads = {lane: head for lane in self._lanes if (head := self._head(lane)) is not None and head[0] <= now}
        if not heads:
            return None
        lane = True in heads and (False not in heads or self._in_a_row < IN_A_ROW)
        self._in_a_row = self._in_a_row + 1 if lane and False in heads else 0
        key = heads[lane][1]
        del self._due[key]
        self._urgent.discard(key)
        self._working.add(key)
        return key

    def done(self, key: Key) -> None:
        """Ends work on a key and forgets its failures."""
        self._working.discard(key)
        self._failures.pop(key, None)
        self._not_before.pop(key, None)

    def failed(self, key: Key, now: float) -> float:
        """Ends failed work on a key; returns the delay [s] until it is due again."""
        self._working.discard(key)
        count = self._failures.get(key, 0)
        self._failures[key] = count + 1
        delay = min(FIRST_RETRY * 2.0 ** min(count, 16), LONGEST_RETRY)
        self._due.pop(key, None)
        self._not_before[key] = now + delay
        self.add(key, now + delay)
        return delay

    def renew(self, key: Key, now: float) -> None:
        """Forgets the failures of a changed key and makes postponed work due now."""
        self._failures.pop(key, None)
        if self._not_before.pop(key, None) is not None and key in self._due:
            self.add(key, now)

    def next_due(self) -> float | None:
        """Earliest due time of a key that is not in work; None if there is none."""
        heads = [head for lane in self._lanes if (head := self._head(lane)) is not None]
        return min(heads)[0] if heads else None

    def _head(self, lane: bool) -> tuple[float, Key] | None:
        """The entry of a lane that is due first, of keys that are not in work."""
        heap = self._lanes[lane]
        in_work: list[tuple[float, Key]] = []
        while heap and (self._is_stale(heap[0], lane) or heap[0][1] in self._working):
            entry = heapq.heappop(heap)
            if not self._is_stale(entry, lane):
                in_work.append(entry)
        first = heap[0] if heap else None
        for entry in in_work:
            heapq.heappush(heap, entry)
        return first

    def _is_stale(self, entry: tuple[float, Key], lane: bool) -> bool:
        """Whether the key was taken, got another due time or became urgent since."""
        return self._due.get(entry[1]) != entry[0] or (entry[1] in self._urgent) != lane

    def __len__(self) -> int:
        return len(self._due)


class WorkQueue:
    """A delay queue that workers can wait on."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._queue = DelayQueue()
        self._clock = clock
        self._changed = asyncio.Event()

    def add(self, key: Key, delay: float = 0.0, *, urgent: bool = False) -> None:
        """urgent: somebody waits for this one, who has edited it, or its plan has come."""
        self._queue.add(key, self._clock() + delay, urgent=urgent)
        self._changed.set()

    def renew(self, key: Key) -> None:
        self._queue.renew(key, self._clock())
        self._changed.set()

    async def get(self) -> Key:
        """Waits for the next due key; the worker must call `done` or `failed` with it."""
        while True:
            key = self._queue.pop(self._clock())
            if key is not None:
                return key
            due = self._queue.next_due()
            self._changed.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(None if due is None else max(0.0, due - self._clock())):
                    await self._changed.wait()

    def done(self, key: Key) -> None:
        self._queue.done(key)
        self._changed.set()

    def failed(self, key: Key) -> float:
        delay = self._queue.failed(key, self._clock())
        self._changed.set()
        return delay

    def __len__(self) -> int:
        return len(self._queue)
