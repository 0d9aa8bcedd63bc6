"""Data of the event loop."""

from __future__ import annotations

import math
from typing import NamedTuple, Protocol

import numpy as np

from hetserve.compiled import njit_inner
from hetserve.dispatch.kernel import Flags, Floats, Integers

WAITING, DROPPED = -1, -2


class ArrivalArrays(NamedTuple):
    """Queries by id. knots, weights: place of each uniform draw on the spread's probabilities."""

    arrivals: Floats
    sizes: Integers
    deadlines: Floats
    knots: Integers
    weights: Floats


class ServiceTimeArrays(NamedTuple):
    """Mean [type, size] x ratios [type, size, knot]."""

    means: Floats
    ratios: Floats


class QueryOutcomes(NamedTuple):
    """By query: start and finish of service (nan: none), worker (or WAITING, DROPPED)."""

    start: Floats
    finish: Floats
    worker: Integers


class LoopState(NamedTuple):
    """State of the loop.

    ends: first and one past the last queue position in ids, sizes, arrivals, deadlines. line: by worker, first and last
    query there, -1: none. next_in_line: by query. pending: predicted work in line. done_at: real end of the running
    query, infinite if idle.
    """

    ends: Integers
    ids: Integers
    sizes: Integers
    arrivals: Floats
    deadlines: Floats
    types: Integers
    busy: Flags
    free_at: Floats
    done_at: Floats
    pending: Floats
    line: Integers
    next_in_line: Integers


def new_state(types: Integers, queries: int) -> LoopState:
    n = len(types)
    return LoopState(
        np.zeros(2, np.int64),
        np.empty(queries, np.int64),
        np.empty(queries, np.int64),
        np.empty(queries),
        np.empty(queries),
        types,
        np.zeros(n, np.bool_),
        np.zeros(n),
        np.full(n, math.inf),
        np.zeros(n),
        np.full((n, 2), -1, np.int64),
        np.empty(queries, np.int64),
    )


@njit_inner
def enqueue(query: int, load: ArrivalArrays, state: LoopState) -> None:
    tail = state.ends[1]
    state.ids[tail] = query
    state.sizes[tail] = load.sizes[query]
    state.arrivals[tail] = load.arrivals[query]
    state.deadlines[tail] = load.deadlines[query]
    state.ends[1] = tail + 1


class Queued(Protocol):
    """What holds a queue: a LoopState, or the queue of one service of several."""

    @property
    def ends(self) -> Integers: ...
    @property
    def ids(self) -> Integers: ...
    @property
    def sizes(self) -> Integers: ...
    @property
    def arrivals(self) -> Floats: ...
    @property
    def deadlines(self) -> Floats: ...


@njit_inner
def _move(source: int, target: int, state: Queued) -> None:
    state.ids[target] = state.ids[source]
    state.sizes[target] = state.sizes[source]
    state.arrivals[target] = state.arrivals[source]
    state.deadlines[target] = state.deadlines[source]


@njit_inner
def close_gaps(low: int, high: int, state: Queued) -> None:
    """Removes entries marked -1 within low..high by moving the shorter side."""
    head, tail = state.ends[0], state.ends[1]
    if high - head < tail - low:
        target = high
        for source in range(high, head - 1, -1):
            if state.ids[source] >= 0:
                _move(source, target, state)
                target -= 1
        state.ends[0] = target + 1
    else:
        target = low
        for source in range(low, tail):
            if state.ids[source] >= 0:
                _move(source, target, state)
                target += 1
        state.ends[1] = target
