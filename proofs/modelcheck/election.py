"""The election of one process: the shipped Candidate over a Lease that the check plays.

The check decides when terms begin and end; the shipped code concludes from what it reads.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final

from hetserve_shell.leader.lease import Candidate, Lease, Terms

TERMS: Final = Terms()
OVER: Final = TERMS.duration + 1.0
"""Seconds after which an unrenewed term is over."""
OTHER: Final = "another process"
NOBODY: Final = ""


def identity(who: int) -> str:
    """Holder's name; a restarted process has another."""
    return f"process{who}"


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def read(self) -> float:
        return self.now


@dataclass(slots=True)
class Election:
    """Wins and loses terms for a process. `fenced` False: every Lease counts as handed over.

    Clock and the Lease's version change only with leaders.
    """

    identity: str
    fenced: bool
    candidate: Candidate = field(init=False)
    clock: Clock = field(default_factory=Clock)

    def __post_init__(self) -> None:
        self.candidate = Candidate(self.identity, TERMS)

    def win(self, term: int, holder: str) -> None:
        """Leads from now on; the Lease names `holder`, who led before.

        `term`: unique among processes, as stamps have no secret here.
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
        """Writes the Lease so that the next may take it; whether it was ours."""
        self.candidate.given_up = True
        return self.candidate.mine


def _lease(holder: str) -> Lease:
    return Lease(holder, "1", TERMS.duration, transitions=0, used=True, raw={})
