"""One decision of a policy, called from Python: a snapshot in, what it dispatches and drops out."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np

from hetserve.compiled import specialise
from hetserve.dispatch import LatencyModel, Policy
from hetserve.dispatch.kernel import (
    AnswerArrays,
    Flags,
    Floats,
    Integers,
    Kernel,
    KernelArguments,
    ModelArrays,
    QueueArrays,
    Scratch,
    WorkerArrays,
)


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


FlatKernel = Callable[..., tuple[int, int, float]]


def _flat(
    now: float,
    sizes: Integers,
    arrivals: Floats,
    deadlines: Floats,
    types: Integers,
    busy: Flags,
    free_at: Floats,
    mean: Floats,
    safe: Floats,
    coefficients: Floats,
    in_time: Integers,
    slo: float,
    parameters: Floats,
    floats: Floats,
    integers: Integers,
    pairs: Integers,
    drops: Integers,
) -> tuple[int, int, float]:
    return _decide(
        now,
        QueueArrays(sizes, arrivals, deadlines),
        WorkerArrays(types, busy, free_at),
        KernelArguments(
            ModelArrays(mean, safe, coefficients, in_time, slo),
            parameters,
            Scratch(floats, integers),
            AnswerArrays(pairs, drops),
        ),
    )


def _decide(*arguments: object) -> tuple[int, int, float]:
    raise NotImplementedError


@cache
def flat_kernel(name: str, kernel: Kernel) -> FlatKernel:
    """The kernel with arrays as separate arguments: numba is slow to take named tuples from Python."""
    return specialise(_flat, f"flat_{name}", _decide=kernel)


def decide(policy: Policy, snapshot: DispatchSnapshot) -> DispatchDecision:
    queue, workers, model = snapshot.queue, snapshot.workers, snapshot.model
    n = max(len(workers), 1)
    floats, integers = policy.scratch(len(workers), len(queue))
    pairs, drops = np.zeros((n, 2), np.int64), np.zeros(n, np.int64)
    dispatched, dropped, wake_at = flat_kernel(policy.name, policy.kernel)(
        float(snapshot.now),
        np.array([model.size_of(q.batch) for q in queue], np.int64),
        np.array([q.arrival for q in queue], np.float64),
        np.array([q.deadline for q in queue], np.float64),
        np.array([w.type for w in workers], np.int64),
        np.array([w.busy for w in workers], np.bool_),
        np.array([w.free_at for w in workers], np.float64),
        *model.arrays,
        np.array(policy.parameters, np.float64),
        np.zeros(floats),
        np.zeros(integers, np.int64),
        pairs,
        drops,
    )
    return DispatchDecision(
        tuple(Dispatch(queue[q].id, w) for q, w in pairs[:dispatched].tolist()),
        tuple(queue[q].id for q in drops[:dropped].tolist()),
        float(wake_at),
    )
