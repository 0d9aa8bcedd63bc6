"""The leadership of one process: the shipped SchedulerLease over a Lease that the check plays.

The check decides when terms begin and end; the shipped code concludes from what it reads.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from hetserve_extender.leader.lease_reader import SchedulerLease
from hetserve_shell.leader.lease import Lease

DURATION: Final = 4.0
OVER: Final = DURATION + 1.0
"""Seconds after which a term of which no renewal is seen is over."""
OTHER: Final = "other_process"


def identity(who: int) -> str:
    """Of the scheduler beside a process."""
    return f"process{who}_u"


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def read(self) -> float:
        return self.now


@dataclass(slots=True)
class Election:
    """Wins and loses terms for a process. Clock and the Lease's renewals change only with leaders."""

    identity: str
    lease: SchedulerLease = field(init=False)
    clock: Clock = field(default_factory=Clock)
    renewals: int = 0

    def __post_init__(self) -> None:
        self.lease = SchedulerLease(self.identity.rpartition("_")[0])

    def win(self, term: int, holder: str) -> None:
        """Leads from now on; the Lease named `holder`, who led before.

        `term`: unique among processes, as stamps have no secret here.
        """
        self.lease.term = term - 1
        if holder != self.identity:
            self._read(holder)
        for _ in range(2):  # the first read tells nothing of when it was written
            if not self.lease.leads(self.clock.now):
                self._read(self.identity)
        assert self.lease.leads(self.clock.now)
        assert self.lease.term == term

    def lapse(self) -> None:
        """No renewal was seen in time."""
        self.clock.now += OVER
        assert not self.lease.leads(self.clock.now)

    def lose(self) -> None:
        """Another has the Lease, and the process reads that."""
        self.lapse()
        self._read(OTHER)
        assert not self.lease.leads(self.clock.now)

    def _read(self, holder: str) -> None:
        # Two that differ are enough: a renewal is another than the one before.
        self.renewals = 1 - self.renewals
        spec: dict[str, Any] = {"holderIdentity": holder, "renewTime": str(self.renewals)}
        now = self.clock.now
        self.lease.observe(Lease(holder, "1", DURATION, 1, used=True, raw={"spec": spec}), now, now, now)
