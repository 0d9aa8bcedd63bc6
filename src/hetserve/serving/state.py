"""Data of the engine, as arrays: tables that stay, and rows of queries, instances, queues and GPUs.

A *kind* is an instance type of one service; a *slot* is an instance's place in the rows. The active instances of
service s are in slots[s]:slots[s + 1]; those that drain come after all services.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple, TypeVar

import numpy as np

from hetserve.dispatch.kernel import AnswerArrays, Flags, Floats, Integers, Scratch

WAITING, DROPPED, LOST = -1, -2, -3
"""In the place of a query's instance: it has none yet, its policy or client gave it up, its instance failed."""
UPCOMING, PLANNED, ENDED, TOUCHED, TO_DECIDE, WAKES, RELEASED, SENT = range(8)
"""Places in Course.counts."""
COUNTS: Final = 8
UNLIMITED: Final = 1 << 62


class Tables(NamedTuple):
    """What stays.

    By service: kernel; whether its policy is eager, that is acts while all are busy; first kind (one more entry); SLO
    [s]; parameters; probabilities of the knots; batch [size]. By kind: predicted mean and safe [size] in seconds,
    infinite beyond the service's sizes; real means [size] in seconds x ratios [size, knot]; Kairos's C_j; how many
    sizes are within the SLO; share of compute. harm [kind that suffers, kind that causes].
    """

    kernels: Integers
    eager: Flags
    kinds: Integers
    slo: Floats
    parameters: Floats
    probabilities: Floats
    batches: Floats
    mean: Floats
    safe: Floats
    means: Floats
    ratios: Floats
    coefficients: Floats
    in_time: Integers
    shares: Floats
    harm: Floats


class QueryRows(NamedTuple):
    """Queries by id, and what became of them. Times in seconds, nan if it has not come to that.

    draw: uniform, of the service time. work: service time of the instance alone. peak: greatest stretch while it was
    served. instance: id, or WAITING, DROPPED, LOST. follower: query that its client sends `think` seconds after the
    answer, 0: none, as no client's first. Until it is sent, its arrival is nan and its deadline counts from there.
    """

    service: Integers
    size: Integers
    arrival: Floats
    deadline: Floats
    draw: Floats
    next_in_line: Integers
    start: Floats
    finish: Floats
    instance: Integers
    work: Floats
    peak: Floats
    follower: Integers
    think: Floats


class InstanceRows(NamedTuple):
    """Instances by slot. type: within the service. pending: predicted work in line. line: first and last query in line.

    remaining: work left [s alone] at the time `since`; stretch: since then, 0: not known yet. done_at: end at this
    stretch. shares: others are on its GPU. is_late: what it serves is counted as late already.
    """

    id: Integers
    service: Integers
    kind: Integers
    type: Integers
    gpu: Integers
    leaving: Flags
    shares: Flags
    is_late: Flags
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


class GpuRows(NamedTuple):
    """members[ends[g]:ends[g + 1]]: slots on GPU g. touched: whose busy instances changed at this instant."""

    ends: Integers
    members: Integers
    is_touched: Flags
    touched: Integers


class MissRows(NamedTuple):
    """Late and unserved queries by service: those with ids below `first` do not count; beyond `most` the run stops."""

    first: Integers
    number: Integers
    most: Integers


class Course(NamedTuple):
    """Where the run is. clock [1]: seconds. agenda: queries to come, in order; ended: queries in order of their end.

    released: heap of the followers that were sent, by arrival and id.
    """

    clock: Floats
    counts: Integers
    agenda: Integers
    ended: Integers
    released: Integers


class EngineState(NamedTuple):
    """All of a run. slots [service + 1]. scratch, answer: what policies write to; they carry nothing over."""

    tables: Tables
    queries: QueryRows
    instances: InstanceRows
    slots: Integers
    waiting: WaitingRows
    gpus: GpuRows
    misses: MissRows
    course: Course
    scratch: Scratch
    answer: AnswerArrays


Rows = TypeVar("Rows", QueryRows, InstanceRows)


def blank_queries(n: int) -> QueryRows:
    # Zeros come from the system untouched, and cost nothing until they are used.
    blank = QueryRows._make(np.zeros(n, _INTEGERS.get(name, np.float64)) for name in QueryRows._fields)
    for times in (blank.start, blank.finish, blank.work):
        times.fill(math.nan)
    blank.instance.fill(WAITING)
    return blank


_INTEGERS: Final = dict.fromkeys(("service", "size", "next_in_line", "instance", "follower"), np.int64)


def blank_instances(n: int) -> InstanceRows:
    """Idle ones."""
    return InstanceRows(
        id=_integers(n),
        service=_integers(n),
        kind=_integers(n),
        type=_integers(n),
        gpu=_integers(n),
        leaving=np.zeros(n, np.bool_),
        shares=np.zeros(n, np.bool_),
        is_late=np.zeros(n, np.bool_),
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
