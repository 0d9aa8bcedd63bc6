"""The election carried out: reads and writes the Lease, and tells when leadership is won and lost."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final
from urllib.parse import quote

from hetserve_shell.kube.client import Answer, ApiServer
from hetserve_shell.kube.connection import ApiUnreachableError
from hetserve_shell.leader.lease import Candidate, Lease, Write, parse_lease

log = logging.getLogger(__name__)

HURRY: Final = 0.1
"""Seconds between two tries to give a Lease up."""
_CONFLICTS: Final = frozenset({404, 409})
_TOO_MANY: Final = 429


def boot_clock() -> float:
    """Seconds on a clock that also runs while the machine is suspended, where the system has one.

    A leader that slept must find its time over.
    """
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


@dataclass(slots=True)
class Elector:
    """Contends for one Lease. `wall` is the time of day written for people; nothing is decided by it.

    `unfit` says why we must not lead, empty where we may: while it does the Lease is neither taken nor renewed, so our
    term ends as by a lapse, and whoever leads next takes over as from a leader that has crashed.
    """

    api: ApiServer
    namespace: str
    name: str
    candidate: Candidate
    clock: Callable[[], float] = boot_clock
    wall: Callable[[], float] = time.time
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
    unfit: Callable[[], str] = str
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _writing: asyncio.Lock = field(default_factory=asyncio.Lock)
    _complaint: str = ""

    def leads(self) -> bool:
        return self.candidate.leads(self.clock())

    def term(self) -> int | None:
        """Number of our present term; None while we do not lead. A term never comes back."""
        return self.candidate.term if self.leads() else None

    def continues(self, term: int) -> bool:
        """Whether nobody else can have led since that term of ours."""
        return self.candidate.continues(term)

    def leader(self) -> str:
        """Who holds the Lease, in words."""
        seen = self.candidate.seen
        return seen.holder if seen is not None and seen.holder else "nobody yet"

    def why_not(self) -> str:
        """Why we do not lead, in words."""
        if self.candidate.given_up:
            return "not the leader any more: this process is ending"
        if words := self.unfit():
            return f"not the leader: {words}"
        if self.candidate.mine and self.clock() < self.candidate.leads_from():
            return "not the leader yet: nothing tells who led before, so one lease duration is waited"
        if self.candidate.mine:
            return "not the leader for now: the Lease is ours and could not be renewed in time"
        return f"not the leader (leader is {self.leader()})"

    async def run(self) -> None:
        """Never returns: contends, and renews while the Lease is ours."""
        while True:
            await self.step()
            await self.sleep(self.candidate.pause(self.clock()))

    async def won(self) -> int:
        """Wait until we lead; returns the term."""
        while (term := self.term()) is None:
            await self._wait(self.candidate.leads_from())
        return term

    async def lost(self, term: int) -> None:
        """Wait until that term is over."""
        while self.term() == term:
            await self._wait(self.candidate.until)

    async def step(self) -> None:
        """Read the Lease unless it is ours, then write what the rules allow."""
        async with self._writing:
            if self.candidate.given_up:
                return
            try:
                if not self.candidate.fresh(self.clock()):
                    await self._read()
                if (write := self.candidate.next_write(self.clock())) is not None and not self.unfit():
                    await self._write(write)
                self._complaint = ""
            except (ApiUnreachableError, ValueError) as error:  # a body that is no JSON is a ValueError too
                self._complain(str(error))
            finally:
                self._tell()

    async def release(self) -> None:
        """Give the Lease up, so that the next need not wait: only when no bind of ours can land any more.

        Repeated while that is worth it: a renewal that was not answered may have been written, and changed the Lease.
        """
        until = self.clock() + self.candidate.terms.renew_deadline
        async with self._writing:
            self.candidate.given_up = True
            self._tell()
            while not await self._try_to_release() and self.clock() < until:
                await self.sleep(HURRY)

    async def _try_to_release(self) -> bool:
        """Try to give the Lease up. Returns whether another try is of no use."""
        body = self.candidate.released(self.namespace, self.name, self._stamp(), self.clock())
        if body is None:
            return True
        try:
            answer = await self._request("PUT", body)
            if answer.status in _CONFLICTS:
                await self._read()
        except (ApiUnreachableError, ValueError) as error:
            self._complain(str(error))
            return False
        if answer.ok:
            log.info("gave up Lease %s/%s", self.namespace, self.name)
            return True
        if not self.candidate.mine:  # a try before was written, though not answered
            return True
        self._complain(answer.message)
        return not (answer.status in _CONFLICTS or answer.status == _TOO_MANY or answer.status >= 500)

    async def _read(self) -> None:
        answer = await self._request("GET")
        if answer.status == 404:
            self._observe(None)
        elif answer.ok:
            self._observe(parse_lease(answer.json()))
        else:
            self._complain(answer.message)

    async def _write(self, write: Write) -> None:
        sent = self.clock()
        answer = await self._request("PUT", self.candidate.manifest(write, self.namespace, self.name, self._stamp()))
        if answer.ok:
            lease, created = parse_lease(answer.json()), answer.status == 201
            self.candidate.wrote(lease, sent, self.clock(), created=created)
            if write != "renew":
                log.info("hold Lease %s/%s as %s", self.namespace, self.name, self.candidate.identity)
            return
        if answer.status in _CONFLICTS:  # somebody wrote or deleted it
            await self._read()
        if write == "renew" or answer.status not in _CONFLICTS:
            self._complain(f"{write}: {answer.message}")

    def _observe(self, lease: Lease | None) -> None:
        before = self.leader()
        self.candidate.observe(lease, self.clock())
        if self.leader() != before:
            log.info("Lease %s/%s is held by %s", self.namespace, self.name, self.leader())

    async def _request(self, method: str, body: object = None) -> Answer:
        # Twice within the deadline: one lost answer alone does not depose a leader.
        timeout = self.candidate.terms.renew_deadline / 2
        collection = f"/apis/coordination.k8s.io/v1/namespaces/{quote(self.namespace, safe='')}/leases"
        return await self.api.request(method, f"{collection}/{quote(self.name, safe='')}", body=body, timeout=timeout)

    async def _wait(self, until: float) -> None:
        """Wait for the next step, or until that time if it lies ahead."""
        self._changed.clear()
        pause = until - self.clock()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(pause if 0 < pause < float("inf") else None):
                await self._changed.wait()

    def _tell(self) -> None:
        self._changed.set()

    def _stamp(self) -> str:
        return datetime.fromtimestamp(self.wall(), UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")

    def _complain(self, words: str) -> None:
        """Log once until it works again or the words change: a step comes twice a second."""
        if words != self._complaint:
            log.warning("Lease %s/%s: %s", self.namespace, self.name, words)
        self._complaint = words
