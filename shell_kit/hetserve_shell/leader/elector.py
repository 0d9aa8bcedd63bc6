"""Following a Lease: tells when a term of ours begins and ends; and contending for it: reads and writes it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final, Generic, TypeVar
from urllib.parse import quote

from hetserve_shell.kube.client import MERGE_PATCH, Answer, ApiServer
from hetserve_shell.kube.connection import JSON, ApiUnreachableError
from hetserve_shell.leader.lease import Candidate, Lease, Tenure, Write, parse_lease

log = logging.getLogger(__name__)

HURRY: Final = 0.1
"""Seconds between two tries to give a Lease up."""
_CONFLICTS: Final = frozenset({404, 409})
_TOO_MANY: Final = 429

Known = TypeVar("Known", bound=Tenure)


def boot_clock() -> float:
    """Seconds on a clock that also runs while the machine is suspended, where the system has one.

    A leader that slept must find its time over.
    """
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


@dataclass(slots=True)
class LeaseFollower(Generic[Known]):
    """One Lease of the API server, and whether it lets us lead. `wall`: the time of day [s]."""

    api: ApiServer
    namespace: str
    name: str
    lease: Known
    clock: Callable[[], float] = boot_clock
    wall: Callable[[], float] = time.time
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
    _changed: asyncio.Event = field(init=False, default_factory=asyncio.Event)
    _complaint: str = field(init=False, default="")

    def leads(self) -> bool:
        return self.lease.leads(self.clock())

    def term(self) -> int | None:
        """Number of our present term; None while we do not lead. A term never comes back."""
        return self.lease.term if self.leads() else None

    def leader(self) -> str:
        """Who holds the Lease, in words."""
        return self.lease.holder or "nobody yet"

    async def won(self) -> int:
        """Wait until we lead; returns the term."""
        while (term := self.term()) is None:
            await self._wait(self.lease.leads_from)
        return term

    async def lost(self, term: int) -> None:
        """Wait until that term is over."""
        while self.term() == term:
            await self._wait(self.lease.until)

    async def _request(self, method: str, timeout: float, body: object = None) -> Answer:  # noqa: ASYNC109
        collection = f"/apis/coordination.k8s.io/v1/namespaces/{quote(self.namespace, safe='')}/leases"
        path = f"{collection}/{quote(self.name, safe='')}"
        content_type = MERGE_PATCH if method == "PATCH" else JSON
        return await self.api.request(method, path, body=body, content_type=content_type, timeout=timeout)

    async def _wait(self, until: float) -> None:
        """Wait until more is known of the Lease, or until that time if it lies ahead."""
        self._changed.clear()
        pause = until - self.clock()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(pause if 0 < pause < float("inf") else None):
                await self._changed.wait()

    def _complain(self, message: str) -> None:
        """Log once until it works again (an empty message) or the message changes: a step comes twice a second."""
        if message and message != self._complaint:
            log.warning("Lease %s/%s: %s", self.namespace, self.name, message)
        self._complaint = message


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
