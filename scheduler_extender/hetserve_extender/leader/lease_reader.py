"""Whether our own scheduler leads, and until when: its Lease, read again and again (decision 0031).

The extender leads while the scheduler of its pod holds the scheduler's Lease. What a read shows may be old by the time
it arrives, so one rule bounds our term by the rates of the clocks alone. A renewal that a read shows for the first time
was written after the read before it was sent. Another scheduler takes the Lease only when it has seen that renewal for
the whole duration, and no later one. So we lead for `SHARE` of the duration from when that earlier read was sent.

A scheduler that ends in order releases its Lease: another may take it before our term is over by this rule. Our
scheduler takes no further pod by then, and the fence holds back what it has asked for before.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from hetserve.api import names
from hetserve_shell.kube.connection import ApiUnreachableError
from hetserve_shell.leader.elector import LeaseFollower
from hetserve_shell.leader.lease import NEVER, Lease, Tenure, parse_lease, signed

log = logging.getLogger(__name__)

SHARE: Final = 3 / 4
"""Part of the Lease's duration for which a renewal lets us lead: the clocks' rates may differ by a third."""


@dataclass(slots=True)
class SchedulerLease(Tenure):
    """The Lease that our scheduler contends for. `host`: the part of its identity before the last underscore.

    kube-scheduler takes its host name and a UUID of its process: in a pod the host's name is the pod's. `wall` is the
    time of day of this machine, which is that of our scheduler too [s].
    """

    host: str
    _read_sent: float | None = None
    _holding: tuple[str, int, str] | None = None

    def observe(self, lease: Lease | None, sent: float, at: float, wall: float) -> None:
        """Take what a read shows (None: there is no Lease) that was sent at `sent`, the answer in hand at `at`."""
        before, since = self.seen, self._read_sent
        self.seen, self._read_sent = lease, sent
        if lease is None or not self.ours:
            self.doubt()
        elif since is not None and (before is None or _spec(before) != _spec(lease)):
            self._renewed(lease, since, at, wall)

    def doubt(self) -> None:
        """Another may have led: what we know is old, and only a new term lists and fences again."""
        self.until, self._holding = NEVER, None

    @property
    def ours(self) -> bool:
        """Whether the Lease names our scheduler, as far as we know."""
        return self.seen is not None and self.seen.holder.rpartition("_")[0] == self.host

    def _renewed(self, lease: Lease, since: float, at: float, wall: float) -> None:
        until = since + SHARE * lease.duration
        if until <= at:  # too old by now: the next renewal tells more
            return
        holding = (lease.holder, lease.transitions, str(lease.raw.get("metadata", {}).get("uid")))
        # By when the answer is there: between the two we have said that we do not lead.
        if at >= self.until or holding != self._holding:
            self.term += 1
            if holding != self._holding:
                self.origin = self.term
                self.leads_from = at + _unknown_for(lease, wall)
        self._holding, self.until = holding, until


def _spec(lease: Lease) -> dict[str, Any]:
    """What a renewal changes: an annotation makes another version of the Lease, and renews nothing."""
    return lease.raw.get("spec") or {}


def _unknown_for(lease: Lease, wall: float) -> float:
    """Seconds for which somebody may still lead of whom the Lease tells nothing: nobody has had it before.

    It may have been deleted under a leader. As long as a Lease lasts that one may not have seen it.
    """
    if lease.transitions:
        return 0.0
    written = _spec(lease).get("acquireTime")
    acquired = datetime.fromisoformat(written).timestamp() if written else wall
    return min(max(lease.duration - (wall - acquired), 0.0), lease.duration)


LEADING: Final = 0.5
"""Seconds between two reads while we lead."""
FOLLOWING: Final = 0.2
"""Seconds between two reads while we do not: so late we learn that our scheduler has won."""
TIMEOUT: Final = 1.0
"""Seconds for an answer: one that is lost does not end a term."""
ANNOUNCED: Final = (names.ANNOTATION_BOOKS_COMPUTE, names.ANNOTATION_COUNTS_PAIRS)
"""What operators wait for on the Lease (decisions 0044 and 0079); the first is read by earlier ones alone."""


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
        """Never returns: says on the Lease what the extender of its holder does (`ANNOUNCED`)."""
        while True:
            seen = self.lease.seen
            if seen is not None and self.leads() and not all(signed(seen.raw, does) for does in ANNOUNCED):
                await self._sign(seen.holder)
            await self.sleep(self.leading)

    async def _sign(self, holder: str) -> None:
        patch = {"metadata": {"annotations": dict.fromkeys(ANNOUNCED, holder)}}
        try:
            answer = await self._request("PATCH", TIMEOUT, patch)
        except ApiUnreachableError as error:
            self._complain(str(error))
        else:
            self._complain("" if answer.ok else answer.message)
