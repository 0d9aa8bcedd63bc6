"""How fairly queues are served: Jain's index (Jain, Chiu, Hawe: DEC-TR-301, 1984).

A release is due to every waiting queue of a priority by weight (HetSev section 4.2, step 3). x: releases got / due of a
queue in a window; the index (sum x)^2 / (n sum x^2) is 1 if all got alike, 1/n if one got everything.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from hetserve.placement.queues.rounds import Queue

WINDOW: Final = 512
"""Releases of a priority in a window."""
_Share = tuple[int, float, int]


@dataclass(slots=True)
class _Window:
    rounds: deque[tuple[_Share, ...]] = field(default_factory=deque)
    releases: int = 0


@dataclass(slots=True)
class FairnessWindow:
    """Follows rounds; the index covers queues that were due a whole release in the window."""

    _windows: dict[int, _Window] = field(default_factory=dict)

    def take(self, queues: Iterable[Queue]) -> None:
        """Takes the queues of a round; one without releases is ignored."""
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
        """Jain's index by priority; absent if no queue was due a whole release."""
        # Copied in one step: a scrape reads in another thread.
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
    """Jain's index; 1 if no value is above 0."""
    found = list(values)
    squares = sum(value * value for value in found)
    return 1.0 if squares == 0 else sum(found) ** 2 / (len(found) * squares)
