"""Data of the engine, as arrays: tables that stay, and rows of queries, instances, queues and GPUs.

A *kind* is an instance type of one service, or one of its variants on that type; a *slot* is an instance's place in the
rows. The active instances of service s are in slots[s]:slots[s + 1]; those that drain come after all services.
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


class JoiningTables(NamedTuple):
    """What stays of services whose queries are joined.

    By service: order of the queue, 0: its queries are not joined; rule; whether hopeless queries are dropped; variants;
    seconds from the deadline until an answer is worth nothing; width of a part of the window of arrivals [s]. By kind:
    percent; worth; seconds until the variant serves.
    """

    orders: Integers
    rules: Integers
    drops: Flags
    variants: Integers
    graces: Floats
    widths: Floats
    accuracies: Floats
    utilities: Floats
    switches: Floats


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
    joining: JoiningTables


class QueryRows(NamedTuple):
    """Queries by id, and what became of them. Times in seconds, nan if it has not come to that.

    draw: uniform, of the service time. work: service time of the instance alone. peak: greatest stretch while it was
    served. instance: id, or WAITING, DROPPED, LOST. follower: query that its client sends `think` seconds after the
    answer, 0: none, as no client's first. Until it is sent, its arrival is nan and its deadline counts from there.
    joined: items that it was served with, its own among them, by this variant (0 as well where there are none);
    next_in_line chains these queries.
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
    variant: Integers
    joined: Integers


class InstanceRows(NamedTuple):
    """Instances by slot. type: within the service. pending: predicted work in line. line: first and last query in line.

    kind: that of its variant, the one of the last batch; -1: none yet. query: that it serves, the first of those that
    are joined.

    remaining: work left [s alone] at the time `since`; stretch: since then, 0: not known yet. done_at: end at this
    stretch. shares: others are on its GPU. is_late: what it serves is counted as late already.
    """

    id: Integers
    service: Integers
    kind: Integers
    type: Integers
    variant: Integers
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

    released: heap of the followers that were sent, by arrival and id. recent [service, part], newest [service]: items
    that arrived in the last parts of time (`RecentArrivals`).
    """

    clock: Floats
    counts: Integers
    agenda: Integers
    ended: Integers
    released: Integers
    recent: Integers
    newest: Integers


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
_INTEGERS: Final = frozenset(
    (
        *("size", "next_in_line", "instance", "follower", "id", "service", "kind", "type", "gpu", "line", "query"),
        *("variant", "joined"),
    )
)
_FLAGS: Final = frozenset(("leaving", "shares", "is_late", "busy"))


def _zeros(kind: type[Rows], n: int) -> Rows:
    # Zeros come from the system untouched, and cost nothing until they are used.
    types = (
        (name, np.int64 if name in _INTEGERS else np.bool_ if name in _FLAGS else np.float64) for name in kind._fields
    )
    return kind._make(np.zeros((n, 2) if name == "line" else n, type_) for name, type_ in types)


def blank_queries(n: int) -> QueryRows:
    blank = _zeros(QueryRows, n)
    for times in (blank.start, blank.finish, blank.work):
        times.fill(math.nan)
    blank.instance.fill(WAITING)
    return blank


def blank_instances(n: int) -> InstanceRows:
    """Idle ones."""
    blank = _zeros(InstanceRows, n)
    blank.done_at.fill(math.inf)
    for none in (blank.line, blank.query, blank.variant):
        none.fill(-1)
    return blank


def joined(rows: Rows, more: Rows) -> Rows:
    if not len(rows[0]):
        return more
    return type(rows)._make(np.concatenate(pair) for pair in zip(rows, more, strict=True))


def taken(rows: Rows, places: Integers) -> Rows:
    return type(rows)._make(array[places] for array in rows)
