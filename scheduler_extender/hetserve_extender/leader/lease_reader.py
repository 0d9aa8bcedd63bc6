"""Reads the scheduler's Lease again and again, and tells when our leadership begins and ends."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Final

from hetserve.api import names
from hetserve_extender.leader.scheduler_lease import SchedulerLease
from hetserve_shell.kube.connection import ApiUnreachableError
from hetserve_shell.leader.follower import LeaseFollower
from hetserve_shell.leader.lease import parse_lease, signed

log = logging.getLogger(__name__)

LEADING: Final = 0.5
"""Seconds between two reads while we lead."""
FOLLOWING: Final = 0.2
"""Seconds between two reads while we do not: so late we learn that our scheduler has won."""
TIMEOUT: Final = 1.0
"""Seconds for an answer: one that is lost does not end a term."""


@dataclass(slots=True)
class LeaseReader(LeaseFollower[SchedulerLease]):
    """Reads the Lease for which our scheduler contends. `leading`, `following`: seconds between two reads."""

    leading: float = LEADING
    following: float = FOLLOWING
    ending: bool = False
    """Whether this process ends, and leads no more whatever the Lease says."""

    def leads(self) -> bool:
        return not self.ending and self.lease.leads(self.clock())

    def why_not(self) -> str:
        """Why we do not lead, in words."""
        if self.ending:
            return "not the leader any more: this process is ending"
        if not self.lease.ours:
            return f"not the leader (the scheduler that leads is {self.leader()})"
        if self.clock() < self.lease.leads_from:
            return "not the leader yet: nothing tells who led before, so one lease duration is waited"
        return "not the leader for now: our scheduler holds the Lease, and no renewal of it was seen in time"

    async def run(self) -> None:
        """Never returns: reads the Lease."""
        while True:
            await self.step()
            await self.sleep(self.leading if self.leads() else self.following)

    async def step(self) -> None:
        """Read the Lease once."""
        sent, before = self.clock(), self.leader()
        try:
            answer = await self._request("GET", TIMEOUT)
            if answer.ok or answer.status == 404:
                found = parse_lease(answer.json()) if answer.ok else None
                self.lease.observe(found, sent, self.clock(), self.wall())
            self._complain("" if answer.ok or answer.status == 404 else answer.message)
        except (ApiUnreachableError, ValueError) as error:
            self._complain(str(error))
        if self.leader() != before:
            log.info("Lease %s/%s is held by %s", self.namespace, self.name, self.leader())
        self._changed.set()

    def doubt(self) -> None:
        """Another leader has fenced a pod since we took over: this term is over."""
        log.warning("a pod shows the fence of another leader: taking over anew")
        self.lease.doubt()
        self._changed.set()

    async def sign(self) -> None:
        """Never returns: says on the Lease that the extender of its holder books compute (decision 0044)."""
        while True:
            seen = self.lease.seen
            if seen is not None and self.leads() and not signed(seen.raw, names.ANNOTATION_BOOKS_COMPUTE):
                await self._sign(seen.holder)
            await self.sleep(self.leading)

    async def _sign(self, holder: str) -> None:
        patch = {"metadata": {"annotations": {names.ANNOTATION_BOOKS_COMPUTE: holder}}}
        try:
            answer = await self._request("PATCH", TIMEOUT, patch)
        except ApiUnreachableError as error:
            self._complain(str(error))
        else:
            self._complain("" if answer.ok else answer.message)
