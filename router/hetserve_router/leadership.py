"""Whether this replica serves the queries. Leading is for efficiency: with two, answers are late, never two or none.

A leader that cannot reach the API server serves on with what it knows, until it reads that another holds the Lease.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from hetserve_shell.leader.elector import Elector
from hetserve_shell.leader.label import LeaderLabel

log = logging.getLogger(__name__)

TICK: Final = 0.25
HANDOVER: Final = 5.0
"""Seconds for which one that reads that another leads takes queries yet: until the label leads them there."""


@dataclass(slots=True)
class RouterLeadership:
    """elector: of the Lease. label: by which the Service finds the leader. sleep: for TICK seconds.

    part: asks clients to come by another connection, since another leads. What has been taken is answered.
    """

    elector: Elector
    label: LeaderLabel | None
    part: Callable[[], None]
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
    _serves: bool = False
    _ticked: float = math.inf
    _until: float = math.inf
    """Until when queries are taken though another leads [s]."""
    _stood_still: bool = field(default=False)

    def serves(self) -> bool:
        """Whether queries are taken: one that stood still for longer than its Lease reads it first."""
        if self._serves and self.elector.clock() - self._ticked > self.elector.lease.terms.duration:
            self._stood_still = True
        return self._serves and not self._stood_still

    async def run(self) -> None:
        """Never returns: contends for the Lease, and says who serves."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.elector.run())
            if self.label is not None:
                group.create_task(self._keep_label(self.label))
            while True:
                self.look()
                await self.sleep(TICK)

    async def give_up(self) -> None:
        """Lets another lead, who moves the label: without one new connections would be refused. Queries are taken."""
        await self.elector.release()

    def look(self) -> None:
        """Takes what is known of the Lease by now."""
        self.serves()  # notes a pause, before the clock is read
        elector = self.elector
        self._ticked = elector.clock()
        other = elector.lease.holder not in ("", elector.lease.identity)
        if elector.leads():
            self._stood_still, self._until = False, math.inf
            if not self._serves:
                self._serves = True
                log.info("leading: queries are taken")
        elif self._serves and other and not elector.lease.given_up:
            if self._until == math.inf:
                log.info("%s leads", elector.leader())
                self._until = self._ticked + HANDOVER
            self._serves = self._ticked < self._until and not self._stood_still
            self.part()

    async def _keep_label(self, label: LeaderLabel) -> None:
        while True:
            term = await self.elector.won()
            keeping = asyncio.create_task(label.keep())
            try:
                await self.elector.lost(term)
            finally:
                keeping.cancel()
                with suppress(asyncio.CancelledError):
                    await keeping
