"""Data of the joint event loop, as arrays: tables that stay, and rows of queries, instances, queues and GPUs.

A *kind* is an instance type of one service; a *cell* is one batch size of one kind; a *slot* is an instance's place in
the rows. The active instances of service s are in slots[s]:slots[s + 1]; those that drain come after all services.
"""

from __future__ import annotations

import math
from typing import NamedTuple, TypeVar

import numpy as np

from hetserve.dispatch.kernel import AnswerArrays, Flags, Floats, Integers, Scratch
from hetserve.simulation.state import WAITING

UPCOMING, PLANNED, ENDED, TOUCHED = 0, 1, 2, 3
"""Places in Course.counts."""


class Tables(NamedTuple):
    """What stays. By service: first kind and first cell (one more entry), number of sizes, SLO [s], parameters.

    By cell: predicted mean and safe [s], real means [s] x ratios [cell, knot], batch. By kind: Kairos's C_j, how many
    sizes are within the SLO, share of compute; harm [kind that suffers, kind that causes].
    """

    kinds: Integers
    cells: Integers
    sizes: Integers
    slo: Floats
    parameters: Floats
    mean: Floats
    safe: Floats
    means: Floats
    ratios: Floats
    batches: Floats
    coefficients: Floats
    in_time: Integers
    shares: Floats
    harm: Floats


class QueryRows(NamedTuple):
    """Queries by id, and what became of them. Times in seconds, nan if it has not come to that.

    work: service time of the instance alone. peak: greatest stretch while it was served. instance: id, or WAITING,
    DROPPED.
    """

    service: Integers
    size: Integers
    arrival: Floats
    deadline: Floats
    knot: Integers
    weight: Floats
    next_in_line: Integers
    start: Floats
    finish: Floats
    instance: Integers
    work: Floats
    peak: Floats


class InstanceRows(NamedTuple):
    """Instances by slot. type: within the service. pending: predicted work in line. line: first and last query in line.

    remaining: work left [s alone] at the time `since`; stretch: since then, 0: not known yet. done_at: end at this
    stretch.
    """

    id: Integers
    service: Integers
    kind: Integers
    type: Integers
    gpu: Integers
    leaving: Flags
    busy: Flags
    free_at: Floats
    done_at: Floats
    pending: Floats
    line: Integers
    query: Integers
    batch: Floats
    remaining: Floats
    since: Floats
    stretch: Floats


class WaitingRows(NamedTuple):
    """Queues: each service has a region. ends [service, 2]: its first and one past its last; wake_at [service]."""

    ends: Integers
    ids: Integers
    sizes: Integers
    arrivals: Floats
    deadlines: Floats
    wake_at: Floats


class ServiceQueue(NamedTuple):
    """One service's part of WaitingRows, as `close_gaps` takes it."""

    ends: Integers
    ids: Integers
    sizes: Integers
    arrivals: Floats
    deadlines: Floats


class GpuRows(NamedTuple):
    """members[ends[g]:ends[g + 1]]: slots on GPU g. touched: whose busy instances changed at this instant."""

    ends: Integers
    members: Integers
    is_touched: Flags
    touched: Integers


class Course(NamedTuple):
    """Where the run is. clock [1]: seconds. agenda: queries to come, in order; ended: queries in order of their end."""

    clock: Floats
    counts: Integers
    agenda: Integers
    ended: Integers


class JointState(NamedTuple):
    """All of a run. slots [service + 1]. scratch, answer: what policies write to; they carry nothing over."""

    tables: Tables
    queries: QueryRows
    instances: InstanceRows
    slots: Integers
    waiting: WaitingRows
    gpus: GpuRows
    course: Course
    scratch: Scratch
    answer: AnswerArrays


Rows = TypeVar("Rows", QueryRows, InstanceRows)


def blank_queries(n: int) -> QueryRows:
    return QueryRows(
        service=_integers(n),
        size=_integers(n),
        arrival=np.zeros(n),
        deadline=np.zeros(n),
        knot=_integers(n),
        weight=np.zeros(n),
        next_in_line=_integers(n, -1),
        start=np.full(n, math.nan),
        finish=np.full(n, math.nan),
        instance=_integers(n, WAITING),
        work=np.full(n, math.nan),
        peak=np.zeros(n),
    )


def blank_instances(n: int) -> InstanceRows:
    """Idle ones."""
    return InstanceRows(
        id=_integers(n),
        service=_integers(n),
        kind=_integers(n),
        type=_integers(n),
        gpu=_integers(n),
        leaving=np.zeros(n, np.bool_),
        busy=np.zeros(n, np.bool_),
        free_at=np.zeros(n),
        done_at=np.full(n, math.inf),
        pending=np.zeros(n),
        line=np.full((n, 2), -1, np.int64),
        query=_integers(n, -1),
        batch=np.zeros(n),
        remaining=np.zeros(n),
        since=np.zeros(n),
        stretch=np.zeros(n),
    )


def _integers(n: int, value: int = 0) -> Integers:
    return np.full(n, value, np.int64)


def joined(rows: Rows, more: Rows) -> Rows:
    return type(rows)._make(np.concatenate(pair) for pair in zip(rows, more, strict=True))


def taken(rows: Rows, places: Integers) -> Rows:
    return type(rows)._make(array[places] for array in rows)
