"""A change of leader: the shipped Leadership, fence and Elector, over terms that the check begins and ends.

Terms are what the Lease guarantees: one process at a time believes that it leads, and its belief ends before the
next one's begins. What time cannot guarantee, that a request of the old leader is over by then, is the fence's part.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from hetserve.placement.placer import Placer
from hetserve_extender.leader.fence import FencedApi, Revisions
from hetserve_extender.leader.leadership import Leadership
from hetserve_shell.kube.client import ApiServer
from modelcheck.election import NOBODY, Election
from modelcheck.loop import StepLoop


@dataclass(slots=True)
class Listing:
    """Stands for the pods' Reflector: a list begins, and arrives when the check says so.

    A list that whoever waited for it has left goes on. Those that the Reflector begins of itself are not counted here:
    they could only save the process one of its own.
    """

    begin: Callable[[], None]
    lists: int = 0
    taken: int = 0
    waiting: list[asyncio.Future[None]] = field(default_factory=list)

    async def relist(self, after: int) -> None:
        if self.taken > after:
            return
        if self.lists <= after:
            self.lists += 1
            self.begin()
        listed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.waiting.append(listed)
        await listed

    def arrived(self) -> None:
        waiting, self.waiting, self.taken = self.waiting, [], self.lists
        for listed in waiting:
            if not listed.done():
                listed.set_result(None)

    def awaited(self) -> bool:
        return any(not listed.done() for listed in self.waiting)


def _told() -> str:
    """No tenant guesses here, and states that differ by a random text alone would never meet."""
    return ""


async def _at_once(_seconds: float) -> None:
    """Pauses change nothing here."""


@dataclass(slots=True)
class Takeover:
    """What leads, the task that takes over, and the one that ends."""

    leadership: Leadership
    election: Election
    pods: Listing
    task: asyncio.Task[None] | None = None
    ending: asyncio.Task[None] | None = None

    @classmethod
    def made(
        cls,
        election: Election,
        api: ApiServer,
        revisions: Revisions,
        placer: Placer,
        begin: Callable[[], None],
    ) -> Takeover:
        pods = Listing(begin)
        return cls(Leadership(election.elector, api, pods, revisions, placer, _at_once, _told), election, pods)

    def fenced(self) -> FencedApi:
        return self.leadership.fenced()

    def serve(self, term: int) -> None:
        """A term begins in which nothing is to be taken over."""
        self.election.win(term, NOBODY)
        self.leadership._serving = term

    def lead(self, loop: StepLoop, term: int, holder: str) -> None:
        """A term begins."""
        self.election.win(term, holder)
        self.task = loop.create_task(self.leadership.take_over(term))

    def stop(self) -> None:
        """A term is over: a take-over under way ends, as Leadership.run ends it."""
        if self.task is not None:
            self.task.cancel()

    def end(self, loop: StepLoop) -> None:
        """The process ends while a renewal is under way: only giving the Lease up waits for that."""
        self.election.begin_renewal()
        self.ending = loop.create_task(self.leadership.hand_over())
        loop.settle()
        if not self.giving_up:
            self.election.end_renewal()

    @property
    def under_way(self) -> bool:
        return self.task is not None and not self.task.done()

    @property
    def giving_up(self) -> bool:
        """Whether the Lease is about to be given up."""
        return self.ending is not None and not self.ending.done()

    @property
    def serves(self) -> bool:
        return not self.giving_up and not self.leadership.refusal()

    @property
    def quiet(self) -> bool:
        """Whether no coroutine is under way, and a later term has no take-over to go on with."""
        return not (self.under_way or self.giving_up) and self.leadership._progress is None
