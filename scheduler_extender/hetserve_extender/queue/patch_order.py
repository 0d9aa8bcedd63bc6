"""In what order the patches of the queues reach the API server, which takes those under way at once in any order.

The bound on waiting says by which of its priority's releases a pod is out. So a release waits for those decided before
it that must be out by an earlier one; with all others it goes side by side. Where a released pod finds no place the
order decides who gets what is left: what is decided then goes one after another.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

from hetserve.placement.queues.rounds import Release

HELD_UP_AT_MOST: Final = 1.0
"""Seconds that a patch without an answer holds up those behind it: one slow webhook must not stop the queues of all."""


@dataclass(slots=True, eq=False)
class Turn:
    """When a patch may be sent: once those that it follows are over."""

    follows: Sequence[Turn] = field(default=(), repr=False)
    over: asyncio.Event = field(default_factory=asyncio.Event)

    @asynccontextmanager
    async def taken(self) -> AsyncIterator[None]:
        """Wait for it; it is over when the body ends, or has taken too long."""
        late: asyncio.TimerHandle | None = None
        try:
            for turn in self.follows:
                await turn.over.wait()
            late = asyncio.get_running_loop().call_later(HELD_UP_AT_MOST, self.over.set)
            yield
        finally:
            if late is not None:
                late.cancel()
            self.end()

    def end(self) -> None:
        self.over.set()
        self.follows = ()  # nor all that those followed


def end(turns: Iterable[Turn]) -> None:
    for turn in turns:
        turn.end()


@dataclass(slots=True)
class Turns:
    """Gives out the turns of releases that are decided one after another."""

    _by_priority: dict[int, list[tuple[int, Turn]]] = field(default_factory=dict)
    """The turns that are not over, each with the release by which its pod must be out."""
    _beside: list[Turn] = field(default_factory=list)
    """Those that are not over, but for what the last one waits for that goes alone."""
    _alone: Turn | None = None

    def take(self, releases: Iterable[Release], *, one_by_one: bool) -> list[Turn]:
        """The turns of releases, in their order."""
        self._forget_what_is_over()
        return [self._alone_after_all(release) if one_by_one else self._side_by_side(release) for release in releases]

    def _side_by_side(self, release: Release) -> Turn:
        turn = Turn()
        if not release.out_of_turn:
            others = self._by_priority.setdefault(release.pod.priority, [])
            turn.follows = tuple(other for due, other in others if due < release.number)
            others.append((release.due, turn))
        self._beside.append(turn)
        return turn

    def _alone_after_all(self, release: Release) -> Turn:
        turn = Turn(tuple(self._beside) if self._alone is None else (self._alone, *self._beside))
        self._alone, self._beside = turn, []
        if not release.out_of_turn:
            self._by_priority.setdefault(release.pod.priority, []).append((release.due, turn))
        return turn

    def _forget_what_is_over(self) -> None:
        self._beside = [turn for turn in self._beside if not turn.over.is_set()]
        if self._alone is not None and self._alone.over.is_set():
            self._alone = None
        left = {
            priority: [(due, turn) for due, turn in others if not turn.over.is_set()]
            for priority, others in self._by_priority.items()
        }
        self._by_priority = {priority: others for priority, others in left.items() if others}
