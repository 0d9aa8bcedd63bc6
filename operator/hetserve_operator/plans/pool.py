"""Plans what the plan book waits for: a few processes for all problems, and one for those that take long.

A process can be ended at a deadline, a thread cannot. A problem gets QUICK_TIME of processor time in one of the quick
processes. If that is not enough it waits for the slow one, which gives it the whole deadline, while the quick ones go
on.

A process takes seconds of a processor to start, and 190 MiB. The first quick one is ready before it is needed, but does
not compete with what the operator itself has to start. Each other begins when problems wait, one after the other.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, Protocol

from hetserve.api.conditions import Reason
from hetserve.base.units import Seconds
from hetserve.planning.plan import Plan, infeasible
from hetserve.planning.work import Done, Work
from hetserve.reconcile import PlannerTimedOut
from hetserve_operator.metrics import OperatorMetrics
from hetserve_operator.plans.book import Lane, PlanBook, Ticket
from hetserve_operator.plans.process import ProcessDiedError

log = logging.getLogger(__name__)

QUICK_TIME: Final = 5.0
"""Seconds of processor time for a problem in a quick process; a plan usually takes 0.3 to 3, an untried one 0.1."""
QUICK_DEADLINE: Final = 20.0
"""Seconds in all; on a full machine a plan waits for a processor most of the time."""
START_WITHIN: Final = 180.0
"""Seconds for a process to become ready; 3 where nobody else computes, 10 without compiled code in the cache."""
LATE: Final = 0.5
"""Seconds after which problems that wait are too many for the processes that there are."""
FIRST_WITHIN: Final = 30.0
"""Seconds for the first process to start, before another one is tried beside it."""
_START_RETRY: Final = 1.0


class Planning(Protocol):
    """A process that plans one problem at a time."""

    @property
    def alive(self) -> bool: ...

    def processor_time(self) -> float:
        """Seconds of processor time that it has used."""
        ...

    async def ask(self, work: Work, /) -> Done:
        """Raises ProcessDiedError."""
        ...

    async def end(self) -> None: ...


async def _at_once() -> None:
    """Due already."""


class PlanningPool:
    """The processes of an operator.

    deadline: seconds for one plan. start: starts a process that is ready to plan. due: ends when the first one may
    start.
    """

    def __init__(
        self,
        book: PlanBook,
        metrics: OperatorMetrics,
        *,
        processes: int,
        deadline: float,
        start: Callable[[], Awaitable[Planning]],
        due: Callable[[], Awaitable[object]] = _at_once,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._book = book
        self._metrics = metrics
        self._deadline = Seconds(deadline)
        self._lanes = (*(Lane.QUICK,) * processes, Lane.SLOW)
        self._start = start
        self._due = due
        self._others_from = math.inf
        self._one_starts = asyncio.Lock()
        self._clock = clock
        self._changed = {lane: asyncio.Event() for lane in Lane}
        self._under_way: dict[Ticket, asyncio.Timeout] = {}
        book.wanted = self._wake_lanes
        book.dropped = self._cancel
        metrics.planning_waiting.set_function(lambda: len(book))

    def loops(self) -> list[Callable[[], Awaitable[None]]]:
        """What to run until it is cancelled: one loop for each process, which it ends with itself."""
        return [partial(self._serve, lane, first=number == 0) for number, lane in enumerate(self._lanes)]

    async def _serve(self, lane: Lane, *, first: bool) -> None:
        process: Planning | None = None
        try:
            while True:
                if process is None and lane is Lane.QUICK:
                    process = await (self._first() if first else self._another())
                ticket = await self._next(lane)
                if process is None or not process.alive:
                    process = await self._started()
                if self._book.is_planned(ticket) and not await self._plan(process, ticket):
                    used, process = process, None
                    await used.end()
        finally:
            if process is not None:
                await process.end()

    async def _first(self) -> Planning:
        await self._due()
        self._others_from = self._clock() + FIRST_WITHIN
        process = await self._started()
        self._others_from = self._clock()
        return process

    async def _another(self) -> Planning:
        """Starts one more quick process, once it is wanted and no other starts."""
        async with self._one_starts:
            await self._wanted()
            return await self._started()

    async def _started(self) -> Planning:
        while True:
            try:
                async with asyncio.timeout(START_WITHIN):
                    return await self._start()
            except Exception as error:
                expected = isinstance(error, OSError | ProcessDiedError)
                words = str(error) or type(error).__name__
                log.warning("cannot start a process that plans: %s", words, exc_info=not expected)
                await asyncio.sleep(_START_RETRY)

    async def _next(self, lane: Lane) -> Ticket:
        while True:
            ticket = self._book.take(lane)
            if ticket is not None:
                return ticket
            await self._change(lane)

    async def _change(self, lane: Lane) -> None:
        """Waits until another ticket of a lane may be taken."""
        self._changed[lane].clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._book.changes_within(lane)):
                await self._changed[lane].wait()

    async def _wanted(self) -> None:
        """Waits until the quick processes that there are have left tickets for LATE. The first one has its time."""
        while True:
            if self._book.waits(Lane.QUICK):
                since = self._clock()
                await asyncio.sleep(LATE)
                if since >= self._others_from and self._book.waits(Lane.QUICK):
                    return
            else:
                await self._change(Lane.QUICK)

    async def _plan(self, process: Planning, ticket: Ticket) -> bool:
        """Plans a ticket; False if the process cannot be used again."""
        begun, used = self._clock(), process.processor_time()
        try:
            async with asyncio.timeout(self._limit(ticket)) as limit:
                self._under_way[ticket] = limit
                if ticket.lane is Lane.QUICK:
                    self._check_quick(process, ticket, used + QUICK_TIME)
                answer = await process.ask(ticket.work)
        except TimeoutError:
            outcome = self._late(ticket)
        except Exception as error:  # whatever it is, this problem fails and the lane goes on
            outcome = self._failed(ticket, error)
        else:
            outcome = self._planned(ticket, answer, process.processor_time() - used)
        finally:
            del self._under_way[ticket]
        self._metrics.planning_seconds.labels(outcome).observe(self._clock() - begun)
        return outcome == "planned"

    def _limit(self, ticket: Ticket) -> float:
        return QUICK_DEADLINE if ticket.lane is Lane.QUICK else self._deadline

    def _check_quick(self, process: Planning, ticket: Ticket, end: float) -> None:
        """Ends the work on a ticket once its process has used this processor time."""
        left = end - process.processor_time()
        if left <= 0:
            self._cancel(ticket)
        elif ticket in self._under_way:
            asyncio.get_running_loop().call_later(left, self._check_quick, process, ticket, end)

    def _planned(self, ticket: Ticket, answer: Done, used: float) -> str:
        if isinstance(answer, Plan):
            self._metrics.plans.labels(answer.planner, str(answer.feasible).lower()).inc()
        # The first large problem is slow only once: code is compiled for it.
        self._book.settle(ticket, answer, Lane.QUICK if used < QUICK_TIME else Lane.SLOW)
        return "planned"

    def _failed(self, ticket: Ticket, error: Exception) -> str:
        planner, died = _planner_of(ticket), isinstance(error, ProcessDiedError)
        message = f"planner {planner} failed: " + (str(error) if died else f"{type(error).__name__}: {error}")
        log.warning("%s: %s", ticket.key, message, exc_info=None if died else error)
        plan = infeasible(ticket.question.problem, planner, Reason.PLANNER_FAILED, message)
        self._book.settle(ticket, plan, ticket.lane)
        return "failed"

    def _late(self, ticket: Ticket) -> str:
        if not self._book.is_planned(ticket):
            return "dropped"
        if ticket.lane is Lane.QUICK and not ticket.untried:
            self._book.defer(ticket)
            return "deferred"
        planner, limit = _planner_of(ticket), Seconds(self._limit(ticket))
        log.warning("%s: planner %s was stopped after %g s", ticket.key, planner, limit)
        self._book.settle(ticket, PlannerTimedOut(planner, limit), Lane.SLOW)
        return "timed-out"

    def _wake_lanes(self) -> None:
        for event in self._changed.values():
            event.set()

    def _cancel(self, ticket: Ticket) -> None:
        limit = self._under_way.get(ticket)
        if limit is not None and not limit.expired():
            limit.reschedule(asyncio.get_running_loop().time())


def _planner_of(ticket: Ticket) -> str:
    return ticket.question.problem.planned_by
