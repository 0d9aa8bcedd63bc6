"""What everybody does who follows a Lease: tells when a term of ours begins and ends, and complains once."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar
from urllib.parse import quote

from hetserve_shell.kube.client import MERGE_PATCH, Answer, ApiServer
from hetserve_shell.kube.connection import JSON
from hetserve_shell.leader.lease import Tenure

log = logging.getLogger(__name__)

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
