"""A change of leader: the shipped Leadership and fence, over an election that the check decides.

Terms are what the Lease guarantees: one process at a time believes that it leads, and its belief ends before the
next one's begins. What time cannot guarantee, that a request of the old leader is over by then, is the fence's part.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from hetserve.placement.placer import Placer
from hetserve_extender.api import ApiServer
from hetserve_extender.fence import FencedApi, Revisions
from hetserve_extender.leader import Leadership


@dataclass(slots=True)
class Candidate:
    """`handed_over`: the last leader said that no bind of its own is under way; the next then raises no fence."""

    identity: str
    handed_over: bool


@dataclass(slots=True)
class Election:
    """The election as one process sees it."""

    who: int
    believed: Callable[[], int | None]
    fenced: bool
    candidate: Candidate = field(init=False)

    def __post_init__(self) -> None:
        self.candidate = Candidate(f"process{self.who}", handed_over=not self.fenced)

    def term(self) -> int | None:
        return self.believed()

    def continues(self, term: int) -> bool:  # noqa: ARG002  (here every term comes after another's)
        return False

    def leader(self) -> str:
        return "another"

    def why_not(self) -> str:
        return "not the leader"

    def clock(self) -> float:
        return 0.0


@dataclass(slots=True)
class Listing:
    """Stands for the pods' Reflector: a list begins, and arrives when the check says so."""

    begin: Callable[[], asyncio.Future[None]]
    lists: int = 0

    async def relist(self, after: int) -> None:  # noqa: ARG002  (whoever asks has not asked before)
        self.lists += 1
        await self.begin()


def _told() -> str:
    """No tenant guesses here, and states that differ by a random text alone would never meet."""
    return ""


async def _at_once(_seconds: float) -> None:
    """Pauses change nothing here."""


@dataclass(slots=True)
class Takeover:
    """What leads, and the task that takes over."""

    leadership: Leadership
    task: asyncio.Task[None] | None = None

    @classmethod
    def made(
        cls,
        election: Election,
        api: ApiServer,
        revisions: Revisions,
        placer: Placer,
        begin: Callable[[], asyncio.Future[None]],
    ) -> Takeover:
        pods = Listing(begin)
        return cls(Leadership(election, api, pods, revisions, placer, _at_once, _told))  # type: ignore[arg-type]

    def fenced(self) -> FencedApi:
        return self.leadership.fenced()

    @property
    def under_way(self) -> bool:
        return self.task is not None and not self.task.done()
