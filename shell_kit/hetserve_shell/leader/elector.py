"""The election carried out: reads and writes the Lease, and tells when leadership is won and lost."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from hetserve_shell.kube.connection import ApiUnreachableError
from hetserve_shell.leader.follower import LeaseFollower
from hetserve_shell.leader.lease import Candidate, Lease, Write, parse_lease

log = logging.getLogger(__name__)

HURRY: Final = 0.1
"""Seconds between two tries to give a Lease up."""
_CONFLICTS: Final = frozenset({404, 409})
_TOO_MANY: Final = 429


@dataclass(slots=True)
class Elector(LeaseFollower[Candidate]):
    """Contends for one Lease. Nothing is decided by the time of day, which is written for people.

    `unfit` says why we must not lead, empty where we may: while it does the Lease is neither taken nor renewed, so our
    term ends as by a lapse, and whoever leads next takes over as from a leader that has crashed.
    """

    unfit: Callable[[], str] = str
    _writing: asyncio.Lock = field(init=False, default_factory=asyncio.Lock)

    def continues(self, term: int) -> bool:
        """Whether nobody else can have led since that term of ours."""
        return self.lease.continues(term)

    def why_not(self) -> str:
        """Why we do not lead, in words."""
        if self.lease.given_up:
            return "not the leader any more: this process is ending"
        if reason := self.unfit():
            return f"not the leader: {reason}"
        if self.lease.mine and self.clock() < self.lease.leads_from:
            return "not the leader yet: nothing tells who led before, so one lease duration is waited"
        if self.lease.mine:
            return "not the leader for now: the Lease is ours and could not be renewed in time"
        return f"not the leader (leader is {self.leader()})"

    async def run(self) -> None:
        """Never returns: contends, and renews while the Lease is ours."""
        while True:
            await self.step()
            await self.sleep(self.lease.pause(self.clock()))

    async def step(self) -> None:
        """Read the Lease unless it is ours, then write what the rules allow."""
        async with self._writing:
            if self.lease.given_up:
                return
            try:
                self._complain(await self._renew())
            except (ApiUnreachableError, ValueError) as error:  # a body that is no JSON is a ValueError too
                self._complain(str(error))
            finally:
                self._changed.set()

    async def release(self) -> None:
        """Give the Lease up, so that the next need not wait: only when no bind of ours can land any more.

        Repeated while that is worth it: a renewal that was not answered may have been written, and changed the Lease.
        """
        until = self.clock() + self.lease.terms.renew_deadline
        async with self._writing:
            self.lease.given_up = True
            self._changed.set()
            while not await self._try_to_release() and self.clock() < until:
                await self.sleep(HURRY)

    async def _try_to_release(self) -> bool:
        """Try to give the Lease up. Returns whether another try is of no use."""
        body = self.lease.released(self.namespace, self.name, self._stamp(), self.clock())
        if body is None:
            return True
        try:
            answer = await self._request("PUT", self._timeout, body)
            if answer.status in _CONFLICTS:
                await self._read()
        except (ApiUnreachableError, ValueError) as error:
            self._complain(str(error))
            return False
        if answer.ok:
            log.info("gave up Lease %s/%s", self.namespace, self.name)
            return True
        if not self.lease.mine:  # a try before was written, though not answered
            return True
        self._complain(answer.message)
        return not (answer.status in _CONFLICTS or answer.status == _TOO_MANY or answer.status >= 500)

    async def _renew(self) -> str:
        """Read the Lease unless it is ours, and write what the rules allow. Returns what was refused."""
        refused = "" if self.lease.fresh(self.clock()) else await self._read()
        write = self.lease.next_write(self.clock())
        return refused if write is None or self.unfit() else await self._write(write) or refused

    async def _read(self) -> str:
        answer = await self._request("GET", self._timeout)
        if answer.ok or answer.status == 404:
            self._observe(parse_lease(answer.json()) if answer.ok else None)
            return ""
        return answer.message

    async def _write(self, write: Write) -> str:
        sent = self.clock()
        body = self.lease.manifest(write, self.namespace, self.name, self._stamp())
        answer = await self._request("PUT", self._timeout, body)
        if answer.ok:
            lease, created = parse_lease(answer.json()), answer.status == 201
            self.lease.wrote(lease, sent, self.clock(), created=created)
            if write != "renew":
                log.info("hold Lease %s/%s as %s", self.namespace, self.name, self.lease.identity)
            return ""
        if answer.status in _CONFLICTS:  # somebody wrote or deleted it
            refused = await self._read()
            return f"{write}: {answer.message}" if write == "renew" else refused
        return f"{write}: {answer.message}"

    def _observe(self, lease: Lease | None) -> None:
        before = self.leader()
        self.lease.observe(lease, self.clock())
        if self.leader() != before:
            log.info("Lease %s/%s is held by %s", self.namespace, self.name, self.leader())

    @property
    def _timeout(self) -> float:
        """Twice within the deadline: one lost answer alone does not depose a leader."""
        return self.lease.terms.renew_deadline / 2

    def _stamp(self) -> str:
        return datetime.fromtimestamp(self.wall(), UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
