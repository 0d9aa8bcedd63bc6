"""A process that plans one problem after the other for the operator, and ends with it.

Requests come on standard input, answers go to standard output, both as pickles with their length before them. This
module is the whole program of the process, so it imports nothing of the operator.
"""

from __future__ import annotations

import os
import pickle
import signal
import struct
import sys
import traceback
from queue import SimpleQueue
from threading import Thread
from typing import IO, Any, Final

from hetserve.planning.registry import plan
from hetserve.registry.planners import OBJECTIVES, PLANNERS, default_planner

LENGTH: Final = struct.Struct("!I")
READY: Final = "ready"
"""The first answer of a process: its planners are imported."""


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
    for objective in OBJECTIVES:
        PLANNERS[default_planner(objective)].load()
    _send(answers, READY)
    while True:
        _send(answers, plan(requests.get()))


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
