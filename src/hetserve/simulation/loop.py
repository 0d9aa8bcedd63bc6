"""The compiled event loop: arrivals, completions and wake-ups in order of (time, kind, worker).

At equal times completions come first, then arrivals, then wake-ups; lower workers first. Each policy has its own copy
of the loop. `tests/support/testing/plain_simulation.py` is its reference.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np

from hetserve.compiled import ZERO, njit_inner, specialise
from hetserve.dispatch.kernel import AnswerArrays, Kernel, KernelArguments, ModelArrays, QueueArrays, WorkerArrays
from hetserve.simulation.state import (
    DROPPED,
    ArrivalArrays,
    LoopState,
    QueryOutcomes,
    ServiceTimeArrays,
    close_gaps,
    enqueue,
)

FINISHED, STOPPED = 0, 1
REPEATED_QUERY, NO_SUCH_QUERY, NO_SUCH_WORKER, UNSERVABLE, ENDLESS_WAKING = -1, -2, -3, -4, -5


class RunArrays(NamedTuple):
    """One run: its queries, real and predicted service times, state and outcome; the first `warm_up` do not count."""

    load: ArrivalArrays
    truth: ServiceTimeArrays
    model: ModelArrays
    state: LoopState
    outcome: QueryOutcomes
    warm_up: int


@njit_inner
def _begin(now: float, query: int, worker: int, run: RunArrays) -> int:
    """Starts serving; 1 if the query counts and will be late."""
    load, truth, state, outcome = run.load, run.truth, run.state, run.outcome
    kind, size, knot, weight = state.types[worker], load.sizes[query], load.knots[query], load.weights[query]
    low, high = truth.ratios[kind, size, knot], truth.ratios[kind, size, knot + 1]
    finish = now + truth.means[kind, size] * (low + (high - low) * weight)
    outcome.start[query] = now
    outcome.finish[query] = finish
    outcome.worker[query] = worker
    state.done_at[worker] = finish
    state.busy[worker] = True
    return 1 if finish > load.deadlines[query] and query >= run.warm_up else 0


@njit_inner
def _complete(now: float, worker: int, run: RunArrays) -> int:
    state = run.state
    query = state.line[worker, 0]
    if query < 0:
        state.busy[worker] = False
        state.done_at[worker] = math.inf
        return 0
    state.free_at[worker] = now + state.pending[worker]
    state.line[worker, 0] = state.next_in_line[query]
    if state.line[worker, 0] < 0:
        state.line[worker, 1] = -1
        state.pending[worker] = 0.0
    else:
        state.pending[worker] -= run.model.mean[state.types[worker], run.load.sizes[query]]
    return _begin(now, query, worker, run)


@njit_inner
def _hand_over(now: float, query: int, worker: int, run: RunArrays) -> int:
    """Gives a query to a worker, which serves or queues it."""
    state = run.state
    predicted = run.model.mean[state.types[worker], run.load.sizes[query]]
    if not state.busy[worker]:
        state.free_at[worker] = now + predicted
        return _begin(now, query, worker, run)
    state.free_at[worker] = max(state.free_at[worker], now) + predicted
    state.pending[worker] += predicted
    state.next_in_line[query] = -1
    if state.line[worker, 0] < 0:
        state.line[worker, 0] = query
    else:
        state.next_in_line[state.line[worker, 1]] = query
    state.line[worker, 1] = query
    return 0


@njit_inner
def _fault(position: int, worker: int, run: RunArrays) -> int:
    """Fault of the query at this position; 0: none. worker -1: a drop."""
    state = run.state
    if position < state.ends[0] or position >= state.ends[1]:
        return NO_SUCH_QUERY
    if state.ids[position] < 0:
        return REPEATED_QUERY
    if worker < -1 or worker >= state.types.shape[0]:
        return NO_SUCH_WORKER
    if worker >= 0 and run.model.mean[state.types[worker], run.load.sizes[state.ids[position]]] == math.inf:
        return UNSERVABLE
    return 0


@njit_inner
def _apply(now: float, dispatched: int, dropped: int, answer: AnswerArrays, run: RunArrays) -> int:
    """Carries out an answer; returns its violations, or a fault (negative)."""
    state = run.state
    violations = 0
    head = state.ends[0]
    low, high = state.ends[1], head
    for k in range(dispatched + dropped):
        is_drop = k >= dispatched
        position = head + (answer.drops[k - dispatched] if is_drop else answer.pairs[k, 0])
        worker = -1 if is_drop else answer.pairs[k, 1]
        fault = NO_SUCH_WORKER if worker == -1 and not is_drop else _fault(position, worker, run)
        if fault < 0:
            return fault
        query = state.ids[position]
        state.ids[position] = -1
        low, high = min(low, position), max(high, position)
        if is_drop:
            run.outcome.worker[query] = DROPPED
            violations += 1 if query >= run.warm_up else 0
        else:
            violations += _hand_over(now, query, worker, run)
    close_gaps(low, high, state)
    return violations


def _simulate(
    load: ArrivalArrays,
    truth: ServiceTimeArrays,
    asking: KernelArguments,
    state: LoopState,
    outcome: QueryOutcomes,
    warm_up: int,
    limit: int,
) -> int:
    """Runs until the end or more than `limit` certain violations; FINISHED, STOPPED or a fault."""
    upcoming, violations, wakes, wake_at = ZERO, 0, 0, math.inf
    total = load.arrivals.shape[0]
    run = RunArrays(load, truth, asking.model, state, outcome, warm_up)
    while wakes <= 10 * total + 1000:
        worker = int(np.argmin(state.done_at))
        arrives_at = load.arrivals[upcoming] if upcoming < total else math.inf
        now = min(state.done_at[worker], arrives_at, wake_at)
        if now == math.inf:
            return FINISHED
        if state.done_at[worker] <= now:
            violations += _complete(now, worker, run)
        elif arrives_at <= now:
            enqueue(upcoming, load, state)
            upcoming += 1
        else:
            wakes += 1
        wake_at = math.inf
        # Inline: named tuples are slow to pass.
        while state.ends[1] > state.ends[0]:
            head, tail = state.ends[0], state.ends[1]
            queue = QueueArrays(state.sizes[head:tail], state.arrivals[head:tail], state.deadlines[head:tail])
            workers = WorkerArrays(state.types, state.busy, state.free_at)
            sent, dropped, asked = _decide(now, queue, workers, asking)
            if sent + dropped == 0:
                wake_at = asked if asked > now else math.inf
                break
            made = _apply(now, sent, dropped, asking.answer, run)
            if made < 0:
                return made
            violations += made
        if violations > limit:
            return STOPPED
    return ENDLESS_WAKING


def _decide(*arguments: object) -> tuple[int, int, float]:
    raise NotImplementedError


@cache
def compiled_loop(policy: str, kernel: Kernel) -> Callable[..., int]:
    return specialise(_simulate, f"simulate_{policy}", _decide=kernel)
