"""In what order the patches of the queues reach the API server, which takes those under way at once in any order.

The bound on waiting counts a priority's releases, and the last of every p of them goes to the pod that waits longest.
So those p may go side by side: whichever comes first, all are out when the p-th is. The next p begin when they are
answered. Where a released pod finds no place the order decides who gets what is left: there each waits for all others.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

from hetserve.placement.queues import Release

HELD_UP_AT_MOST: Final = 1.0
"""Seconds that a patch without an answer holds up those behind it: one slow webhook must not stop the queues of all."""


@dataclass(slots=True)
class Turn:
    """When a patch may be sent: once those that it follows are over."""

    follows: Sequence[Turn] = field(repr=False)
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
            self.over.set()
            self.follows = ()  # nor all that ever were


@dataclass(slots=True)
class _Priority:
    """The turns that the next ones of a priority follow, and those beside which they go."""

    before: list[Turn] = field(default_factory=list)
    beside: list[Turn] = field(default_factory=list)

    def take(self, release: Release) -> Turn:
        turn = Turn(tuple(turn for turn in self.before if not turn.over.is_set()))
        self.beside.append(turn)
        if release.longest_waiting:
            self.before, self.beside = self.beside, []
        return turn


@dataclass(slots=True)
class Turns:
    """Gives out the turns of a term; those before the first wait for nobody."""

    _priorities: dict[int, _Priority] = field(default_factory=dict)
    _open: list[Turn] = field(default_factory=list)

    def take(self, releases: Iterable[Release], *, one_by_one: bool) -> list[Turn]:
        """The turns of releases, in their order."""
        self._open = [turn for turn in self._open if not turn.over.is_set()]
        if not self._open:
            self._priorities.clear()
        turns = []
        for release in releases:
            turn = self._turn(release)
            if one_by_one:
                turn.follows = tuple(self._open)
            self._open.append(turn)
            turns.append(turn)
        return turns

    def clear(self) -> None:
        """Forget those given out: their patches were cancelled, some before they began."""
        self._priorities.clear()
        self._open.clear()

    def _turn(self, release: Release) -> Turn:
        if release.out_of_turn:
            return Turn(())
        return self._priorities.setdefault(release.pod.priority, _Priority()).take(release)
