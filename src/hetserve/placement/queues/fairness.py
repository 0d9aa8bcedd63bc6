"""How fairly queues are served: Jain's index over what each got of what its weight made it due.

Within a priority a release is due to every waiting queue in proportion to its weight (HetSev section 4.2, step
3). Over a window of releases, x of a queue is releases got / releases due; the index (sum x)^2 / (n sum x^2) is
1 where all got alike, and 1/n where one of n got everything (Jain, Chiu, Hawe: DEC-TR-301, 1984).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from hetserve.placement.queues.rounds import Queue

WINDOW: Final = 512
"""Releases of a priority that are looked back on."""
_Share = tuple[int, float, int]


@dataclass(slots=True)
class _Window:
    rounds: deque[tuple[_Share, ...]] = field(default_factory=deque)
    releases: int = 0


@dataclass(slots=True)
class FairnessWindow:
    """Follows rounds; `index` per priority is over the queues that were due a whole release in the window."""

    _windows: dict[int, _Window] = field(default_factory=dict)

    def take(self, queues: Iterable[Queue]) -> None:
        """Take the queues of a round; one without releases says nothing."""
        by_priority: dict[int, list[Queue]] = {}
        for queue in queues:
            by_priority.setdefault(queue.priority, []).append(queue)
        for priority, members in by_priority.items():
            released = sum(queue.released for queue in members)
            total = sum(queue.weight for queue in members)
            if released and total > 0:
                shares = tuple((queue.id, released * queue.weight / total, queue.released) for queue in members)
                self._add(priority, shares, released)

    def indices(self) -> Mapping[int, float]:
        """Jain's index by priority; none where no queue was due a whole release."""
        # Copied in one step: rounds are taken on the event loop while a scrape reads in a thread.
        found = {priority: _index(window) for priority, window in list(self._windows.items())}
        return {priority: value for priority, value in sorted(found.items()) if value is not None}

    def _add(self, priority: int, shares: tuple[_Share, ...], released: int) -> None:
        window = self._windows.setdefault(priority, _Window())
        window.rounds.append(shares)
        window.releases += released
        while window.releases > WINDOW and len(window.rounds) > 1:
            window.releases -= sum(got for _, _, got in window.rounds.popleft())


def _index(window: _Window) -> float | None:
    due: dict[int, float] = {}
    got: dict[int, int] = {}
    for shares in tuple(window.rounds):
        for queue, share, released in shares:
            due[queue] = due.get(queue, 0.0) + share
            got[queue] = got.get(queue, 0) + released
    ratios = [got[queue] / share for queue, share in due.items() if share >= 1.0]
    return jain(ratios) if ratios else None


def jain(values: Iterable[float]) -> float:
    """Jain's index of values of which at least one is above 0; 1 for none above 0 (all got alike)."""
    found = list(values)
    squares = sum(value * value for value in found)
    return 1.0 if squares == 0 else sum(found) ** 2 / (len(found) * squares)
