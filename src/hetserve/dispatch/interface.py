"""Input and output of a dispatch policy, for the simulator and a network router.

A policy is a compiled kernel over arrays (`hetserve.dispatch.kernel`). Tests compare it with a plain reference, in
`tests/support/testing/plain_dispatch.py`.

It is called after every arrival, completion and wake-up, and again as long as it dispatches or drops something. A
dispatch to a busy worker queues there.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hetserve.dispatch.latency import LatencyModel

if TYPE_CHECKING:
    from hetserve.dispatch.kernel import Kernel


@dataclass(frozen=True, slots=True)
class Query:
    """arrival, deadline: seconds."""

    id: int
    batch: int
    arrival: float
    deadline: float


@dataclass(frozen=True, slots=True)
class Worker:
    """type: index into the model's types. free_at: predicted end of its work; meaningless if idle."""

    type: int
    busy: bool = False
    free_at: float = 0.0


@dataclass(frozen=True, slots=True)
class DispatchSnapshot:
    """Everything that a decision depends on. queue: in order of arrival."""

    now: float
    queue: tuple[Query, ...]
    workers: tuple[Worker, ...]
    model: LatencyModel


@dataclass(frozen=True, slots=True)
class Dispatch:
    query: int
    worker: int


@dataclass(frozen=True, slots=True)
class DispatchDecision:
    """dispatches: in order. drops: ids. wake_at: latest time of the next call; infinity: none."""

    dispatches: tuple[Dispatch, ...] = ()
    drops: tuple[int, ...] = ()
    wake_at: float = math.inf


ScratchSizes = Callable[[int, int], tuple[int, int]]


def no_scratch(workers: int, queries: int) -> tuple[int, int]:  # noqa: ARG001
    return 0, 0


@dataclass(frozen=True, slots=True)
class Policy:
    """One query-distribution policy.

    parameters: for example xi. scratch: (floats, integers) for so many workers and queries. acts_when_all_busy: whether
    it may send or drop queries, or ask to be woken, while no instance is idle; else it is not called then.
    """

    name: str
    kernel: Kernel
    parameters: tuple[float, ...] = ()
    scratch: ScratchSizes = no_scratch
    acts_when_all_busy: bool = True
