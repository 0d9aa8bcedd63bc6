"""Input and output of a dispatch policy, the same for the simulator and a network router.

A policy implements one function twice: as a compiled kernel over plain arrays (`hetserve.dispatch.kernel`), and as a
plain reference that the kernel is tested against.

Contract: the policy is called after every arrival, completion and wake-up, and again at the same instant as long as it
dispatches or drops something. A dispatch to a busy worker queues there, first come first served.
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
    """One waiting query; arrival and deadline in seconds."""

    id: int
    batch: int
    arrival: float
    deadline: float


@dataclass(frozen=True, slots=True)
class Worker:
    """One instance. type: index into the model's types.

    free_at: predicted end of its work; in the past for a busy worker that is late, meaningless for an idle one.
    """

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
    """Assignment of a query (its id) to a worker (its index)."""

    query: int
    worker: int


@dataclass(frozen=True, slots=True)
class DispatchDecision:
    """dispatches: in order. drops: ids of queries given up. wake_at: time of the next call at the latest; infinity:
    none.
    """

    dispatches: tuple[Dispatch, ...] = ()
    drops: tuple[int, ...] = ()
    wake_at: float = math.inf


Reference = Callable[[DispatchSnapshot, tuple[float, ...]], DispatchDecision]
ScratchSizes = Callable[[int, int], tuple[int, int]]


def no_scratch(workers: int, queries: int) -> tuple[int, int]:  # noqa: ARG001
    """A kernel that needs no working memory."""
    return 0, 0


@dataclass(frozen=True, slots=True)
class Policy:
    """One query-distribution policy.

    reference: the kernel's decision in plain Python, from a snapshot and the parameters. parameters: the policy's
    numbers, for example xi. scratch: (floats, integers) of working memory for so many workers and at most so many
    queries.
    """

    name: str
    kernel: Kernel
    reference: Reference
    parameters: tuple[float, ...] = ()
    scratch: ScratchSizes = no_scratch
