"""Whether this process may write: in which term it leads, and why it does not."""

from __future__ import annotations

import asyncio
import itertools
import logging
import secrets
from collections.abc import Callable
from typing import Final

from hetserve_shell.leader.elector import Elector
from hetserve_shell.leader.lease import stamp_of

log = logging.getLogger(__name__)

Permit = Callable[[], str]
"""Why a write may not be sent any more; empty while it may."""
ONLY_TERM: Final = 1
"""Term of a process that takes part in no election: from its start to its end."""


BRIEF: Final = 10.0
"""Seconds without leading in which no watch has missed much. After more it may be that nothing was reached at all."""


class NotLeadingError(Exception):
    """A write was not sent, since the term in which it was decided is over; the next leader reconciles again."""


class OperatorLeadership:
    """The terms of one process.

    elector: None if there is no election, so that this process always leads. secret: as of `stamp_of`.
    """

    def __init__(self, elector: Elector | None = None, secret: Callable[[], str] = secrets.token_hex) -> None:
        self._elector = elector
        self._identity = "" if elector is None else elector.lease.identity
        self._secret = secret()
        self._stamps = itertools.count(1)
        self._ending = False

    def term(self) -> int | None:
        """The present term; None while another may lead. A term never comes back."""
        if self._ending:
            return None
        return ONLY_TERM if self._elector is None else self._elector.term()

    def refusal(self, term: int | None = None) -> str:
        """Why nothing decided in that term may be sent any more; empty while it lasts."""
        if term is not None and self.term() == term:
            return ""
        if self._ending:
            return "this process is ending"
        if self._elector is None or self._elector.leads():
            return "the term in which it was decided is over"
        return self._elector.why_not()

    def permit(self, term: int) -> Permit:
        """Permit for everything that is decided in that term."""
        return lambda: self.refusal(term)

    def new_stamp(self) -> str:
        """A value for the fence label that was never written before."""
        return stamp_of(self._identity, self.term() or 0, f"{self._secret}/{next(self._stamps)}")

    async def won(self) -> int:
        """Waits until this process leads; returns the term. Never returns in a process that is ending."""
        if self._ending:
            await asyncio.Future()
        return ONLY_TERM if self._elector is None else await self._elector.won()

    async def run(self, on_won: Callable[[bool], None], on_lost: Callable[[], None]) -> None:
        """Follows the election. Never returns.

        on_won: called at the beginning of each term, with whether it goes on with the last one: that ended less than
        BRIEF ago, and nobody else can have led.
        on_lost: called at the end of each term.
        """
        if self._elector is None:
            on_won(False)
            await asyncio.Future()
            return
        elector, last, ended = self._elector, 0, 0.0
        while True:
            term = await elector.won()
            log.info("leading: term %d", term)
            on_won(last > 0 and elector.continues(last) and elector.clock() - ended < BRIEF)
            last = term
            await elector.lost(term)
            ended = elector.clock()
            on_lost()
            log.warning("no longer leading: the leader is %s", elector.leader())

    def end(self) -> None:
        """No further write is sent by this process."""
        self._ending = True

    async def hand_over(self) -> None:
        """Gives the Lease up, so that another leads at once; what this process has under way meets its fence."""
        if self._elector is not None:
            await self._elector.release()
