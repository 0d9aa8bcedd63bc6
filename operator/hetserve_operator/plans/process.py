"""Starts, asks and ends one process that plans."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pickle
import signal
import sys
from asyncio.subprocess import PIPE, Process
from typing import Any

from hetserve.planning.work import JobResult, PlannerJob
from hetserve_operator.plans.worker import LENGTH, frame


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
