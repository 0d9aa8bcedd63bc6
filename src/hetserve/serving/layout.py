"""Builds and rebuilds the rows between runs: the only place where instances move and rows grow."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from hetserve.dispatch import Policy
from hetserve.dispatch.joining import JoiningPolicy, Variant
from hetserve.dispatch.joining.arrays import CELLS
from hetserve.dispatch.joining.interface import BIN, BY_BIN, BY_DEADLINE
from hetserve.dispatch.kernel import AnswerArrays, Flags, Floats, Integers, Scratch
from hetserve.serving.services import Service
from hetserve.serving.state import (
    COUNTS,
    ENDED,
    PLANNED,
    RELEASED,
    TO_DECIDE,
    TOUCHED,
    UNLIMITED,
    UPCOMING,
    Course,
    EngineState,
    GpuRows,
    InstanceRows,
    JoiningTables,
    MissRows,
    QueryRows,
    Tables,
    WaitingRows,
    blank_instances,
    blank_queries,
    joined,
    taken,
)
from hetserve.serving.variants import VariantSystem


def blank_state(services: Sequence[Service]) -> EngineState:
    """Services without instances or queries, at time 0."""
    n, none, queries, instances = len(services), np.zeros(0, np.int64), blank_queries(0), blank_instances(0)
    slots, counts = np.zeros(n + 1, np.int64), np.zeros(COUNTS, np.int64)
    counts[TO_DECIDE] = -1
    return EngineState(
        tables_of(services),
        queries,
        instances,
        slots,
        _regions([none] * n, slots[1:], queries, np.full(n, math.inf)),
        _gpu_rows(instances, 0),
        unlimited(n),
        Course(np.zeros(1), counts, none, none, none, np.zeros((n, CELLS), np.int64), np.zeros(n, np.int64)),
        Scratch(np.zeros(0), none),
        AnswerArrays(np.zeros((0, 2), np.int64), none),
    )


def copied(state: EngineState) -> EngineState:
    """A state that goes its own way; what is never changed in place is not copied."""
    rows = {
        name: type(part)._make(array.copy() for array in part)
        for name, part in state._asdict().items()
        if name in ("queries", "instances", "waiting", "gpus", "misses", "course")
    }
    return state._replace(**rows)


def unlimited(services: int) -> MissRows:
    return MissRows(np.zeros(services, np.int64), np.zeros(services, np.int64), np.full(services, UNLIMITED))


def tables_of(services: Sequence[Service]) -> Tables:
    """Tables of these services, in this order."""
    kernels = list(dict.fromkeys(service.kernel for service in services))
    models, served = [service.predicted for service in services], [service.system.served for service in services]
    uses = [
        (service.name, service.use(name))
        for service in services
        for name in service.system.types
        for _ in range(service.system.rows_per_type)
    ]
    prepared = [service.prepared for service in services]
    sizes = max(len(model.batches) for model in models)
    return Tables(
        kernels=np.array([kernels.index(service.kernel) for service in services], np.int64),
        eager=np.array([isinstance(each.policy, Policy) and each.policy.acts_when_all_busy for each in services]),
        kinds=np.cumsum([0, *(len(model.types) for model in models)]),
        slo=np.array([service.system.slo for service in services], np.float64),
        parameters=_padded([np.array([one.parameters], np.float64) for one in prepared]),
        probabilities=np.array([latency.probabilities for latency in served], np.float64),
        batches=_padded([model.batches[None].astype(np.float64) for model in models], sizes),
        mean=_padded([one.times.reshape(-1, one.times.shape[-1]) for one in prepared], sizes),
        safe=_padded([model.arrays.safe for model in models], sizes),
        means=_padded([latency.means for latency in served], sizes),
        ratios=_padded([latency.ratios for latency in served], sizes),
        coefficients=np.concatenate([model.arrays.coefficients for model in models]),
        in_time=np.concatenate([model.arrays.in_time for model in models]),
        shares=np.array([use.share for _, use in uses], np.float64),
        harm=np.array([[causes.on(suffers) for _, causes in uses] for suffers, _ in uses], np.float64),
        joining=_joining_tables(services, [one.window for one in prepared]),
    )


_PLAIN: Final = (Variant("", 0.0),)


def _joining_tables(services: Sequence[Service], windows: Sequence[float]) -> JoiningTables:
    """windows: of arrivals, by service [s], 0: none."""
    systems = [service.system for service in services]
    policies = [one.policy if isinstance(one.policy, JoiningPolicy) else None for one in services]
    variants = [one.variants if isinstance(one, VariantSystem) else _PLAIN for one in systems]
    by_kind = [each for one, known in zip(systems, variants, strict=True) for each in known * len(one.types)]
    switches = [one.switches if isinstance(one, VariantSystem) else np.zeros(len(one.types)) for one in systems]
    return JoiningTables(
        orders=np.array([one.order if one else 0 for one in policies], np.int64),
        rules=np.array([one.rule if one else 0 for one in policies], np.int64),
        drops=np.array([one is not None and one.drops for one in policies]),
        variants=np.array([one.rows_per_type for one in systems], np.int64),
        graces=np.array([one.grace if isinstance(one, VariantSystem) else 0.0 for one in systems]),
        widths=np.array([window / CELLS if window > 0 else math.inf for window in windows]),
        accuracies=np.array([one.accuracy for one in by_kind], np.float64),
        utilities=np.array([one.utility for one in by_kind], np.float64),
        switches=np.concatenate([np.repeat(s, one.rows_per_type) for s, one in zip(switches, systems, strict=True)]),
    )


def _padded(tables: Sequence[Floats], columns: int | None = None) -> Floats:
    """Tables below each other, infinite beyond their columns."""
    width = max(table.shape[1] for table in tables) if columns is None else columns
    out = np.full((sum(map(len, tables)), width, *tables[0].shape[2:]), math.inf)
    row = 0
    for table in tables:
        out[row : row + len(table), : table.shape[1]] = table
        row += len(table)
    return out


def seated(state: EngineState, ranks: Integers, gpus: int) -> EngineState:
    """Instances in their slots: by service, rank of their kind (`fastest_first`) and id, those that drain last.

    ranks: [kind]. Drained ones are gone. All get their speeds anew.
    """
    rows = state.instances
    order = np.lexsort((rows.id, ranks[rows.kind], rows.service, rows.leaving))
    rows = taken(rows, order[~(rows.leaving & ~rows.busy)[order]])
    slots = np.searchsorted(rows.service[~rows.leaving], np.arange(len(state.tables.kernels) + 1)).astype(np.int64)
    state.course.counts[TOUCHED] = gpus
    return state._replace(instances=rows, slots=slots, gpus=_gpu_rows(rows, gpus))


def _gpu_rows(instances: InstanceRows, gpus: int) -> GpuRows:
    """Who is on which GPU; marks the instances that are not alone there."""
    instances.shares[:] = np.bincount(instances.gpu, minlength=gpus)[instances.gpu] > 1
    members = np.argsort(instances.gpu, kind="stable").astype(np.int64)
    ends = np.searchsorted(instances.gpu[members], np.arange(gpus + 1)).astype(np.int64)
    return GpuRows(ends, members, np.ones(gpus, np.bool_), np.arange(gpus))


def with_room(state: EngineState, needed: int) -> EngineState:
    """Rows for so many queries; they double, so that injections cost no more than what they inject."""
    course, held = state.course, len(state.queries.size)
    if needed <= held:
        return state
    more = max(needed, 2 * held) - held
    ended, released = (np.concatenate((ids, np.empty(more, np.int64))) for ids in (course.ended, course.released))
    queries, course = joined(state.queries, blank_queries(more)), course._replace(ended=ended, released=released)
    return state._replace(queries=queries, course=course)


def replanned(state: EngineState, ids: Integers) -> EngineState:
    """With more queries on the agenda; at equal times the earlier planned come first."""
    course = state.course
    planned = course.agenda[course.counts[UPCOMING] : course.counts[PLANNED]]
    to_come = np.concatenate((planned, ids)) if len(planned) else ids
    times = state.queries.arrival[to_come]
    in_order = (times[1:] >= times[:-1]).all()
    agenda = np.ascontiguousarray(to_come if in_order else to_come[np.argsort(times, kind="stable")])
    counts = course.counts.copy()
    counts[UPCOMING], counts[PLANNED] = 0, len(agenda)
    return state._replace(course=course._replace(agenda=agenda, counts=counts))


def requeued(state: EngineState) -> EngineState:
    """Queues with room for all who wait and all who come."""
    waiting, course, queries = state.waiting, state.course, state.queries
    services = len(waiting.wake_at)
    released, followers = course.released[: course.counts[RELEASED]], queries.follower[queries.follower > 0]
    to_come = np.concatenate((course.agenda[course.counts[UPCOMING] :], released, followers))
    coming = np.bincount(queries.service[to_come], minlength=services) if services > 1 else np.array([len(to_come)])
    waits = [waiting.ids[head:tail] for head, tail in waiting.ends]
    return state._replace(waiting=_regions(waits, coming, queries, waiting.wake_at))


def _regions(waits: Sequence[Integers], coming: Integers, queries: QueryRows, wake_at: Floats) -> WaitingRows:
    """A region for each service. waits: ids that wait, in order, by service; coming: room for more, by service."""
    starts = np.cumsum([0, *(len(ids) + more for ids, more in zip(waits, coming, strict=True))])
    ids, sizes, arrivals, deadlines = (np.zeros(starts[-1], kind) for kind in (np.int64, np.int64, float, float))
    new = WaitingRows(np.zeros((len(waits), 2), np.int64), ids, sizes, arrivals, deadlines, wake_at)
    for service, there in enumerate(waits):
        new.ends[service] = starts[service], starts[service] + len(there)
        place = slice(*new.ends[service])
        ids[place], sizes[place] = there, queries.size[there]
        arrivals[place], deadlines[place] = queries.arrival[there], queries.deadline[there]
    return new


def with_desk(state: EngineState, policies: Sequence[Policy | JoiningPolicy], room: int) -> EngineState:
    """What policies write to, large enough for each service. room: most queries that wait at once."""
    workers = np.maximum(np.diff(state.slots), 1).tolist()
    asked = [policy.scratch(n, room) for policy, n in zip(policies, workers, strict=True)]
    floats, integers, most = max(a for a, _ in asked), max(b for _, b in asked), max(len(state.instances.id), 1)
    return state._replace(
        scratch=Scratch(np.zeros(floats), np.zeros(integers, np.int64)),
        answer=AnswerArrays(np.zeros((most, 2), np.int64), np.zeros(most, np.int64)),
    )


def without_waiting(waiting: WaitingRows, service: int, stays: Flags) -> Integers:
    """Takes the others out of those of a service that wait; returns their ids, in order."""
    head, tail = waiting.ends[service]
    gone = waiting.ids[head:tail][~stays]
    left = tail - len(gone)
    for rows in waiting[1:5]:
        rows[head:left] = rows[head:tail][stays]
    waiting.ends[service, 1] = left
    return gone


def without_line(state: EngineState, slot: int) -> Integers:
    """Takes what waits in an instance's line from it; returns its ids, in order."""
    instances, held = state.instances, line_of(state, slot)
    instances.line[slot] = -1
    instances.free_at[slot] -= instances.pending[slot]
    instances.pending[slot] = 0.0
    return np.array(held, np.int64)


def line_of(state: EngineState, slot: int) -> list[int]:
    """Queries that wait in an instance's line, in order."""
    held, query = [], int(state.instances.line[slot, 0])
    while query >= 0:
        held.append(query)
        query = int(state.queries.next_in_line[query])
    return held


def served_by(state: EngineState, slot: int) -> list[int]:
    """Queries that an instance serves, in the order in which they were joined."""
    instances, queries = state.instances, state.queries
    if not instances.busy[slot]:
        return []
    query = int(instances.query[slot])
    served = [query]
    while state.tables.joining.orders[instances.service[slot]] and (query := int(queries.next_in_line[query])) >= 0:
        served.append(query)
    return served


def without_query(state: EngineState, query: int) -> None:
    """Takes a query that no instance serves out of its queue, or out of the line of an instance."""
    queries, instances, waiting = state.queries, state.instances, state.waiting
    service = queries.service[query]
    head, tail = waiting.ends[service]
    without_waiting(waiting, service, waiting.ids[head:tail] != query)
    for slot in [one for one in range(len(instances.id)) if query in line_of(state, one)]:
        line = without_line(state, slot)
        stays = line[line != query]
        queries.next_in_line[stays] = np.append(stays[1:], -1)
        instances.line[slot] = (stays[0], stays[-1]) if len(stays) else -1
        instances.pending[slot] = state.tables.mean[instances.kind[slot], queries.size[stays]].sum()
        instances.free_at[slot] += instances.pending[slot]


def without_instance(state: EngineState, slot: int) -> Integers:
    """Takes what an instance serves and what waits in its line from it, in this order; it is gone then."""
    queries, instances = state.queries, state.instances
    served = np.array(served_by(state, slot), np.int64)
    if instances.is_late[slot]:  # it was counted when it began
        state.misses.number[instances.service[slot]] -= served[0] >= state.misses.first[instances.service[slot]]
    instances.leaving[slot], instances.busy[slot], instances.query[slot] = True, False, -1
    ids, blank = np.concatenate((served, without_line(state, slot))), blank_queries(1)
    for name in ("start", "instance", "work", "peak", "variant", "joined"):
        getattr(queries, name)[ids] = getattr(blank, name)[0]
    return ids


def put_back(
    state: EngineState, service: int, ids: Integers, room: int = 0, numbers: Integers | None = None
) -> EngineState:
    """Queries wait again, at the place of their arrival, or of their deadline.

    room: for more queries, of each service. numbers: [id], the order of equal arrivals; default: the ids.
    """
    queries, waiting = state.queries, state.waiting
    waits = [waiting.ids[head:tail] for head, tail in waiting.ends]
    more = np.concatenate((waits[service], ids))
    in_order = more[np.lexsort((more if numbers is None else numbers[more], queries.arrival[more]))]
    order, ranks = state.tables.joining.orders[service], queries.deadline[in_order]
    if order in (BY_DEADLINE, BY_BIN):
        in_order = in_order[np.argsort(np.floor(ranks / BIN) if order == BY_BIN else ranks, kind="stable")]
    waits[service] = in_order
    return state._replace(waiting=_regions(waits, np.full(len(waits), room), queries, waiting.wake_at))


def ended_unserved(state: EngineState, ids: Integers, why: int) -> EngineState:
    """Notes that queries end without an answer; their clients may send the next. why: in the instance's place."""
    queries, course = state.queries, state.course
    queries.instance[ids] = why
    np.add.at(state.misses.number, queries.service[ids], ids >= state.misses.first[queries.service[ids]])
    ended = course.counts[ENDED]
    course.ended[ended : ended + len(ids)] = ids
    course.counts[ENDED] += len(ids)
    sent = queries.follower[ids]
    sent = sent[sent > 0]
    queries.arrival[sent] = course.clock[0] + queries.think[sent]
    queries.deadline[sent] += queries.arrival[sent]
    return replanned(state, sent) if len(sent) else state


def forget_ended(state: EngineState, held: int) -> Integers:
    """Takes out the rows of the queries that have ended, of `held`; returns the ids that the others had, in order."""
    queries, instances, waiting, course = state.queries, state.instances, state.waiting, state.course
    stays = np.ones(held, np.bool_)
    stays[course.ended[: course.counts[ENDED]]] = False
    kept = np.flatnonzero(stays)
    numbers = np.append(np.cumsum(stays) - 1, -1)  # the last for -1: none
    for rows, blank in zip(queries, blank_queries(held - len(kept)), strict=True):
        rows[: len(kept)] = rows[kept]
        rows[len(kept) : held] = blank
    followed = queries.follower > 0
    queries.follower[followed] = numbers[queries.follower[followed]]
    first = state.misses.first
    first[:] = np.searchsorted(kept, first) + np.maximum(first - held, 0)
    for links in (queries.next_in_line, course.released[: course.counts[RELEASED]]):
        links[: len(kept)] = numbers[links[: len(kept)]]
    instances.query[:] = numbers[instances.query]
    instances.line[:] = numbers[instances.line]
    for head, tail in waiting.ends:
        waiting.ids[head:tail] = numbers[waiting.ids[head:tail]]
    upcoming = slice(course.counts[UPCOMING], course.counts[PLANNED])
    course.agenda[upcoming] = numbers[course.agenda[upcoming]]
    course.counts[ENDED] = 0
    return kept


def revised(state: EngineState, tables: Tables, sizes: Sequence[Integers]) -> EngineState:
    """The state with other tables, in which services come first that it has. sizes: of each, [size] its new index."""
    queries, instances, waiting = state.queries, state.instances, state.waiting
    for service, places in enumerate(sizes):
        mine = np.flatnonzero(queries.service == service)
        queries.size[mine] = places[queries.size[mine]]
    per_type = tables.joining.variants[instances.service]
    instances.kind[:] = tables.kinds[instances.service] + instances.type * per_type + np.maximum(instances.variant, 0)
    known, services, misses = len(waiting.wake_at), len(tables.slo), unlimited(len(tables.slo))
    for old, new in zip(state.misses, misses, strict=True):
        new[:known] = old
    ends = np.zeros((services, 2), np.int64)
    ends[:known] = waiting.ends
    for head, tail in waiting.ends:
        waiting.sizes[head:tail] = queries.size[waiting.ids[head:tail]]
    wake_at = np.append(waiting.wake_at, np.full(services - known, math.inf))
    wake_at[ends[:, 1] > ends[:, 0]] = state.course.clock[0]
    waiting = waiting._replace(ends=ends, wake_at=wake_at)
    recent, newest = np.zeros((services, CELLS), np.int64), np.zeros(services, np.int64)
    kept = np.flatnonzero(tables.joining.widths[:known] == state.tables.joining.widths)
    recent[kept], newest[kept] = state.course.recent[kept], state.course.newest[kept]
    course = state.course._replace(recent=recent, newest=newest)
    before = state.tables.joining.orders
    state = state._replace(tables=tables, waiting=waiting, misses=misses, course=course)
    for service in np.flatnonzero(tables.joining.orders[:known] != before).tolist():
        state = put_back(state, service, np.zeros(0, np.int64))
    return state
