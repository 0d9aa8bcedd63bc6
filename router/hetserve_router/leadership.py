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
from hetserve_shell.leader.service import LeaderLabel

log = logging.getLogger(__name__)

TICK: Final = 0.25


@dataclass(slots=True)
class RouterLeadership:
    """elector: of the Lease. label: by which the Service finds the leader. sleep: for TICK seconds.

    began, ended: called when this replica begins to serve, and when another has taken over.
    """

    elector: Elector
    label: LeaderLabel | None
    began: Callable[[], None]
    ended: Callable[[], None]
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
    _serves: bool = False
    _ticked: float = math.inf
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
        """Lets another lead: the Lease and the label go, queries are still taken."""
        drops = [] if self.label is None else [self.label.drop()]
        await asyncio.gather(self.elector.release(), *drops)

    def look(self) -> None:
        """Takes what is known of the Lease by now."""
        self.serves()  # notes a pause, before the clock is read
        elector = self.elector
        self._ticked = elector.clock()
        other = elector.lease.holder not in ("", elector.lease.identity)
        if elector.leads():
            self._stood_still = False
        if elector.leads() and not self._serves:
            self._serves = True
            log.info("leading: queries are taken")
            self.began()
        elif self._serves and other and not elector.lease.given_up:
            self._serves = self._stood_still = False
            log.info("%s leads", elector.leader())
            self.ended()

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
