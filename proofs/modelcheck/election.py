"""The election as one process has it: the shipped Candidate over a Lease that the check plays.

When a term begins and ends the check decides. What the process concludes from what it reads (whether it goes on after
a lapse, whether it was handed the Lease) is the shipped code's own. Requests about the Lease are answered at once.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final

from hetserve_shell.leader.lease import Candidate, Lease, Terms

TERMS: Final = Terms()
OVER: Final = TERMS.duration + 1.0
"""Seconds after which no term lasts that was not renewed, and a Lease that stood still may be taken."""
OTHER: Final = "another process"
NOBODY: Final = ""


def identity(who: int) -> str:
    """How a process calls itself in the Lease. One that is started again is another, and holds no Lease of before."""
    return f"process{who}"


class Clock:
    """What a process reads as the time."""

    def __init__(self) -> None:
        self.now = 0.0

    def read(self) -> float:
        return self.now


@dataclass(slots=True)
class Election:
    """Wins and loses terms for a process. `fenced` False: every Lease passes for one that was handed over.

    The clock stands still but for changes of leader. The Lease's version stands still too: nobody writes between a read
    and a write here.
    """

    identity: str
    fenced: bool
    candidate: Candidate = field(init=False)
    clock: Clock = field(default_factory=Clock)

    def __post_init__(self) -> None:
        self.candidate = Candidate(self.identity, TERMS)

    def win(self, term: int, holder: str) -> None:
        """Lead from now on; the Lease names `holder`, who leads no more.

        `term`: its number. The world counts them: of two processes, too, none has a number twice, as stamps need it
        that have no secret here.
        """
        candidate, clock, found = self.candidate, self.clock, _lease(holder)
        candidate.term = term - 1
        candidate.observe(found, clock.now)
        if candidate.next_write(clock.now) is None:
            clock.now += OVER
        assert candidate.next_write(clock.now) is not None, "a Lease that may be had is not taken"
        candidate.wrote(replace(found, holder=self.identity), clock.now, clock.now)
        if not self.fenced:
            candidate.handed_over = True
        assert candidate.leads(clock.now)
        assert candidate.term == term

    def lapse(self) -> None:
        """The Lease was not renewed in time."""
        self.clock.now += OVER
        assert not self.candidate.leads(self.clock.now)

    def lose(self) -> None:
        """Another has the Lease, and the process reads that."""
        self.lapse()
        self.candidate.observe(_lease(OTHER), self.clock.now)
        assert not self.candidate.leads(self.clock.now)

    def give_up(self) -> bool:
        """Write the Lease so that the next may take it at once; whether it was ours to write."""
        self.candidate.given_up = True
        return self.candidate.mine


def _lease(holder: str) -> Lease:
    return Lease(holder, "1", TERMS.duration, transitions=0, used=True, raw={})
