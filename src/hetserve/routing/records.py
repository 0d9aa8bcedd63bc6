"""What a router knows of a query and of an instance, and their timers."""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass, field


@dataclass(slots=True, eq=False)
class RoutedQuery:
    """A query that has not ended, or whose instance has not.

    size: index into the batches. deadline: for the policy; hard: after which it is not served [s]. instance: that
    computes it; None: it waits. is_gone: nobody awaits an answer. timer: serial number, 0: none.
    """

    id: int
    items: int
    size: int
    arrival: float
    deadline: float
    hard: float
    is_retriable: bool
    instance: RoutedInstance | None = None
    is_gone: bool = False
    timer: int = 0


@dataclass(slots=True, eq=False)
class RoutedInstance:
    """An instance that has not left, or serves.

    kind: index of its type; -1: unknown. since: when it was sent its query [s]. is_seated: the dispatcher knows it.
    tries: probes since it is suspected, the next one too; 0: it is not.
    """

    id: int
    type: str
    kind: int
    query: RoutedQuery | None = None
    since: float = 0.0
    is_seated: bool = False
    is_draining: bool = False
    is_leaving: bool = False
    tries: int = 0
    timer: int = 0

    @property
    def may_serve(self) -> bool:
        return self.kind >= 0 and not self.is_draining and not self.tries

    @property
    def stands(self) -> bool:
        """Whether queries wait for it: it may serve, or will if its first probe is answered."""
        return self.kind >= 0 and not self.is_draining and self.tries <= 1


@dataclass(slots=True)
class Timers:
    """One for each query and instance: setting replaces it, `timer = 0` stops it. next [s]: before it none is due."""

    next: float = math.inf
    _heap: list[tuple[float, int, RoutedQuery | RoutedInstance]] = field(default_factory=list)
    _serial: int = 0

    def set(self, subject: RoutedQuery | RoutedInstance, at: float) -> None:
        self._serial = subject.timer = serial = self._serial + 1
        heapq.heappush(self._heap, (at, serial, subject))
        self.next = self._heap[0][0]
        if serial % 1024 == 0:  # timers that were stopped would fill the memory, and hold up the event that finds them
            self._heap = [entry for entry in self._heap if entry[2].timer == entry[1]]
            heapq.heapify(self._heap)

    def take(self, now: float) -> RoutedQuery | RoutedInstance | None:
        """One that is due, whose timer is stopped; None: none is."""
        self.next = math.inf
        while self._heap:
            at, serial, subject = self._heap[0]
            if subject.timer == serial and at > now:
                self.next = at
                break
            heapq.heappop(self._heap)
            if subject.timer == serial:
                subject.timer, self.next = 0, now  # there may be more
                return subject
        return None
