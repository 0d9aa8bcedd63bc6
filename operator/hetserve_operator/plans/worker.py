"""A process that plans one problem after the other for the operator, and ends with it.

Requests come on standard input, answers go to standard output, both as pickles with their length before them. This
module is the whole program of the process, so it imports nothing of the operator.

A tried plan takes seconds, and the operator's passes and requests wait for a processor meanwhile: it gives way to them.
An untried one takes a tenth of a second, and a service that has none waits for it: it does not (decision 0018).
"""

from __future__ import annotations

import os
import pickle
import signal
import struct
import sys
import time
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import IO, Any, Final

from hetserve.base.units import QPS, MicroDollarsPerHour, Seconds
from hetserve.demand import BatchMix
from hetserve.planning.problem import LatencySlo, Problem, TypeOption
from hetserve.planning.reach import JobResult, PlannerJob, done
from hetserve.profiles import LinearProfile
from hetserve.registry.planners import OBJECTIVES, Objective

LENGTH: Final = struct.Struct("!I")
NICENESS: Final = 5
"""Of tried plans."""
AUTOGROUP: Final = Path("/proc/self/autogroup")
WEIGH_PAUSE: Final = 0.1
"""Seconds between two changes of any session's niceness, but for those of an administrator."""
WEIGHED_WITHIN: Final = 5
"""Times that a change is tried."""
READY: Final = "ready"
"""The first answer of a process: its planners are imported, and their code is compiled."""


def frame(value: object) -> bytes:
    """A value with its length before it."""
    content = pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
    return LENGTH.pack(len(content)) + content


def main() -> None:
    """Answers requests until standard input ends."""
    # A service manager sends it to all processes, but plans are wanted until the operator has ended its work.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # a solver that prints must not write between the answers
    requests: SimpleQueue[Any] = SimpleQueue()
    Thread(target=_receive, args=(sys.stdin.buffer, requests), daemon=True).start()
    threads = PlanningThreads()
    for objective in OBJECTIVES:
        threads.plan(PlannerJob(_tiny(objective)), gives_way=False)  # every service waits for it
    _send(answers, READY)
    while True:
        _send(answers, threads.plan(requests.get()))


class PlanningThreads:
    """Plans one problem at a time, in the thread with the niceness of its kind. sleep: between tries to be weighed."""

    def __init__(self, sleep: Callable[[float], None] = time.sleep) -> None:
        self._sleep = sleep
        # Niceness is a thread's, and only grows: each kind has its own.
        self._prompt, self._patient = (ThreadPoolExecutor(1, initializer=os.nice, initargs=(n,)) for n in (0, NICENESS))
        self._group: int | None = None

    def plan(self, work: PlannerJob, *, gives_way: bool = True) -> JobResult:
        """Its answer; a planner's error is raised. gives_way: to the operator, where it is not quick."""
        patient = gives_way and not work.quick
        self._weigh(NICENESS if patient else 0)
        return (self._patient if patient else self._prompt).submit(done, work).result()

    def _weigh(self, niceness: int) -> None:
        """Where the kernel shares processors between sessions, a thread's niceness counts within ours alone."""
        if niceness == self._group:
            return
        for _ in range(WEIGHED_WITHIN):
            try:
                AUTOGROUP.write_text(str(niceness), encoding="ascii")
            except BlockingIOError:  # only so often in the whole machine, and the other processes turn with us
                self._sleep(WEIGH_PAUSE)
            except OSError:
                return
            else:
                self._group = niceness
                return


def _tiny(objective: Objective) -> Problem:
    """Few instances of two types: its plan compiles what other plans run."""
    types = [("fast", 4, 0.02), ("slow", 2, 0.03)]
    return Problem(
        service="warm-up",
        objective=objective,
        slo=LatencySlo(Seconds(0.5)),
        mix=BatchMix.of([(1, 1.0), (8, 1.0)]),
        types=tuple(
            TypeOption(name, MicroDollarsPerHour(price), LinearProfile(Seconds(0.01), Seconds(slope), None))
            for name, price, slope in types
        ),
        budget=MicroDollarsPerHour(12),
        load=QPS(5.0),
    )


def _receive(stream: IO[bytes], requests: SimpleQueue[Any]) -> None:
    """Reads requests in a thread, to notice the end of the operator even during a plan or within a request."""
    try:
        while len(head := stream.read(LENGTH.size)) == LENGTH.size:
            requests.put(pickle.loads(stream.read(LENGTH.unpack(head)[0])))  # noqa: S301  the operator wrote it
    except Exception:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def _send(stream: IO[bytes], value: object) -> None:
    stream.write(frame(value))
    stream.flush()


if __name__ == "__main__":
    main()
