"""Plans what the planner queue has, in a few processes, each problem within one deadline.

A process can be ended at a deadline, a thread cannot. A process takes seconds of a processor to start, and 190 MiB. The
first is ready before it is needed, but does not compete with what the operator itself has to start. Each other begins
when problems wait, one after the other.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import pickle
import signal
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Protocol

from hetserve.api.conditions import Reason
from hetserve.base.units import Seconds
from hetserve.planning.plan import Plan, infeasible
from hetserve.planning.reach import JobResult, PlannerJob
from hetserve.reconcile.plans.planner import PlannerTimedOut
from hetserve_operator.metrics import OperatorMetrics
from hetserve_operator.plans.queue import PlannerQueue, Ticket
from hetserve_operator.plans.worker import LENGTH, frame

log = logging.getLogger(__name__)

START_WITHIN: Final = 180.0
"""Seconds for a process to become ready; 3 where nobody else computes, 10 without compiled code in the cache."""
LATE: Final = 0.5
"""Seconds after which problems that wait are too many for the processes that there are."""
_START_RETRY: Final = 1.0


class Planning(Protocol):
    """A process that plans one problem at a time."""

    @property
    def alive(self) -> bool: ...

    async def ask(self, work: PlannerJob, /) -> JobResult:
        """Raises ProcessDiedError."""
        ...

    async def end(self) -> None: ...


async def _at_once() -> None:
    """Due already."""


@dataclass(eq=False)
class PlanningPool:
    """The processes of an operator.

    processes: at most. deadline: seconds for one plan. start: starts a process that is ready to plan. due: ends when
    the first one may start.
    """

    _queue: PlannerQueue
    _metrics: OperatorMetrics
    processes: int
    deadline: float
    start: Callable[[], Awaitable[Planning]]
    due: Callable[[], Awaitable[object]] = _at_once
    clock: Callable[[], float] = time.monotonic
    _ready: int = field(default=0, init=False)
    _first_is_ready: asyncio.Event = field(default_factory=asyncio.Event, init=False)
    _one_starts: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)
    _changed: asyncio.Event = field(default_factory=asyncio.Event, init=False)
    _under_way: dict[Ticket, asyncio.Timeout] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self._queue.wanted = self._changed.set
        self._queue.dropped = self._cancel
        self._metrics.planning_waiting.set_function(lambda: len(self._queue))

    def loops(self) -> list[Callable[[], Awaitable[None]]]:
        """What to run until it is cancelled: one loop for each process, which it ends with itself."""
        return [partial(self._serve, first=number == 0) for number in range(self.processes)]

    async def _serve(self, *, first: bool) -> None:
        while True:
            process = await (self._first() if first else self._another())
            self._ready += 1
            try:
                while True:
                    ticket = await self._next()
                    if not process.alive:  # it ended while nobody asked it
                        process = await self._started()
                    if self._queue.is_planned(ticket) and not await self._plan(process, ticket):
                        break
            finally:
                self._ready -= 1
                await process.end()

    async def _first(self) -> Planning:
        await self.due()
        process = await self._started()
        self._first_is_ready.set()
        return process

    async def _another(self) -> Planning:
        """Starts one more process, once it is wanted and no other starts."""
        await self._first_is_ready.wait()
        async with self._one_starts:
            while True:
                if not self._queue.waits():
                    await self._change()
                    continue
                await asyncio.sleep(LATE)
                if self._queue.waits():
                    return await self._started()

    async def _started(self) -> Planning:
        while True:
            try:
                async with asyncio.timeout(START_WITHIN):
                    return await self.start()
            except Exception as error:
                expected = isinstance(error, OSError | ProcessDiedError)
                message = str(error) or type(error).__name__
                log.warning("cannot start a process that plans: %s", message, exc_info=not expected)
                await asyncio.sleep(_START_RETRY)

    async def _next(self) -> Ticket:
        while (ticket := self._queue.take(self._ready)) is None:
            await self._change()
        return ticket

    async def _change(self) -> None:
        """Waits until another ticket may be taken."""
        self._changed.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._queue.settles_within()):
                await self._changed.wait()

    async def _plan(self, process: Planning, ticket: Ticket) -> bool:
        """Plans a ticket; False if the process cannot be used again."""
        begun = self.clock()
        try:
            async with asyncio.timeout(self.deadline) as limit:
                self._under_way[ticket] = limit
                answer = await process.ask(ticket.work)
        except TimeoutError:
            outcome = self._late(ticket)
        except Exception as error:  # whatever it is, this problem fails and the others go on
            outcome = self._failed(ticket, error)
        else:
            outcome = self._planned(ticket, answer)
        finally:
            del self._under_way[ticket]
            self._changed.set()  # a tried plan may begin where one has ended
        self._metrics.planning_seconds.labels(outcome).observe(self.clock() - begun)
        return outcome == "planned"

    def _planned(self, ticket: Ticket, answer: JobResult) -> str:
        if isinstance(answer, Plan):
            self._metrics.plans.labels(answer.planner, str(answer.feasible).lower()).inc()
        self._queue.settle(ticket, answer)
        return "planned"

    def _failed(self, ticket: Ticket, error: Exception) -> str:
        planner, died = ticket.question.problem.planned_by, isinstance(error, ProcessDiedError)
        message = f"planner {planner} failed: " + (str(error) if died else f"{type(error).__name__}: {error}")
        log.warning("%s: %s", ticket.key, message, exc_info=None if died else error)
        plan = infeasible(ticket.question.problem, planner, Reason.PLANNER_FAILED, message)
        self._queue.settle(ticket, plan)
        return "failed"

    def _late(self, ticket: Ticket) -> str:
        if not self._queue.is_planned(ticket):
            return "dropped"
        planner = ticket.question.problem.planned_by
        log.warning("%s: planner %s was stopped after %g s", ticket.key, planner, self.deadline)
        self._queue.settle(ticket, PlannerTimedOut(planner, Seconds(self.deadline)))
        return "timed-out"

    def _cancel(self, ticket: Ticket) -> None:
        """Ends the work on a ticket that was dropped."""
        limit = self._under_way.get(ticket)
        if limit is not None and not limit.expired():
            limit.reschedule(asyncio.get_running_loop().time())


class ProcessDiedError(Exception):
    """The process ended before it answered; the text says how."""


class PlanningProcess:
    """A process that plans one problem at a time."""

    def __init__(self, process: Process) -> None:
        self._process = process

    @classmethod
    async def start(cls) -> PlanningProcess:
        """A process that has made its first plans. Raises ProcessDiedError or OSError."""
        # -P: the folder that the operator was started in is not searched for modules.
        command = (sys.executable, "-P", "-m", "hetserve_operator.plans.worker")
        made = cls(await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE, start_new_session=True))
        try:
            await made._answer()
        except BaseException:
            await made.end()
            raise
        return made

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        """False once it has ended."""
        return self._process.returncode is None

    async def ask(self, work: PlannerJob) -> JobResult:
        """Its answer. Raises ProcessDiedError. A call that is cancelled leaves the process fit only for `end`."""
        assert self._process.stdin is not None  # noqa: S101  a pipe
        with contextlib.suppress(ConnectionError):  # the answer says how the process ended
            self._process.stdin.write(frame(work))
            await self._process.stdin.drain()
        answer = await self._answer()
        assert isinstance(answer, JobResult)  # noqa: S101
        return answer

    async def end(self) -> None:
        """Ends the process and the solvers that it has started, whatever they do."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        ended = asyncio.ensure_future(self._process.communicate())
        try:
            await asyncio.shield(ended)
        except asyncio.CancelledError:
            await ended  # at once, for it was killed: nobody else waits for it
            raise

    async def _answer(self) -> Any:
        stream = self._process.stdout
        assert stream is not None  # noqa: S101  a pipe
        try:
            head = await stream.readexactly(LENGTH.size)
            return pickle.loads(await stream.readexactly(LENGTH.unpack(head)[0]))  # noqa: S301  our own process wrote it
        except (asyncio.IncompleteReadError, ConnectionError):
            raise ProcessDiedError(_ending(await self._process.wait())) from None


def _ending(code: int) -> str:
    """How a process ended."""
    if code >= 0:
        return f"its process ended with exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    return f"its process was ended by {name}"
