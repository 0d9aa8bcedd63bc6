"""Builds and rebuilds the rows between runs: the only place where instances move and rows grow."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from hetserve.dispatch import Policy
from hetserve.dispatch.kernel import AnswerArrays, Floats, Integers, Scratch
from hetserve.simulation.shared.services import SharedService
from hetserve.simulation.shared.state import (
    ENDED,
    PLANNED,
    UPCOMING,
    Course,
    GpuRows,
    InstanceRows,
    JointState,
    QueryRows,
    Tables,
    WaitingRows,
    blank_queries,
    joined,
    taken,
)
from hetserve.simulation.state import DROPPED


def tables_of(services: Sequence[SharedService]) -> Tables:
    """Tables of these services, in this order."""
    models, served = [service.predicted for service in services], [service.system.served for service in services]
    types = [len(model.types) for model in models]
    sizes = [len(model.batches) for model in models]
    uses = [(service.name, service.use(name)) for service in services for name in service.system.types]
    return Tables(
        kinds=np.cumsum([0, *types]),
        cells=np.cumsum([0, *(a * b for a, b in zip(types, sizes, strict=True))]),
        sizes=np.array(sizes, np.int64),
        slo=np.array([service.system.slo for service in services]),
        parameters=_padded([service.policy.parameters for service in services]),
        mean=np.concatenate([model.arrays.mean.ravel() for model in models]),
        safe=np.concatenate([model.arrays.safe.ravel() for model in models]),
        means=np.concatenate([latency.means.ravel() for latency in served]),
        ratios=np.concatenate([latency.ratios.reshape(-1, len(latency.probabilities)) for latency in served]),
        batches=np.concatenate([np.tile(model.batches, len(model.types)) for model in models]).astype(np.float64),
        coefficients=np.concatenate([model.arrays.coefficients for model in models]),
        in_time=np.concatenate([model.arrays.in_time for model in models]),
        shares=np.array([use.share for _, use in uses]),
        harm=np.array([[causes.on(suffers) for _, causes in uses] for suffers, _ in uses]),
    )


def _padded(rows: Sequence[Sequence[float]]) -> Floats:
    out = np.zeros((len(rows), max(map(len, rows))))
    for line, row in zip(out, rows, strict=True):
        line[: len(row)] = row
    return out


def arranged(instances: InstanceRows, ranks: Integers) -> InstanceRows:
    """Instances in their slots: by service, rank of their kind (`fastest_first`) and id, those that drain last.

    ranks: [kind]. Drained ones are gone.
    """
    order = np.lexsort((instances.id, ranks[instances.kind], instances.service, instances.leaving))
    gone = instances.leaving & ~instances.busy
    return taken(instances, order[~gone[order]])


def slots_of(instances: InstanceRows, services: int) -> Integers:
    """[service + 1] First slot of each service's active instances."""
    active = instances.service[~instances.leaving]
    return np.searchsorted(active, np.arange(services + 1)).astype(np.int64)


def gpu_rows(instances: InstanceRows, gpus: int) -> GpuRows:
    members = np.argsort(instances.gpu, kind="stable").astype(np.int64)
    ends = np.searchsorted(instances.gpu[members], np.arange(gpus + 1)).astype(np.int64)
    return GpuRows(ends, members, np.zeros(gpus, np.bool_), np.zeros(gpus, np.int64))


def with_room(queries: QueryRows, course: Course, needed: int) -> tuple[QueryRows, Course]:
    """Rows for so many queries; they double, so that injections cost no more than what they inject."""
    held = len(queries.size)
    if needed <= held:
        return queries, course
    more = max(needed, 2 * held) - held
    ended = np.concatenate((course.ended, np.zeros(more, np.int64)))
    return joined(queries, blank_queries(more)), course._replace(ended=ended)


def replanned(course: Course, queries: QueryRows, ids: Integers) -> Course:
    """Agenda with more queries; at equal times the earlier planned come first."""
    to_come = np.concatenate((course.agenda[course.counts[UPCOMING] : course.counts[PLANNED]], ids))
    agenda = to_come[np.argsort(queries.arrival[to_come], kind="stable")]
    counts = course.counts.copy()
    counts[UPCOMING], counts[PLANNED] = 0, len(agenda)
    return course._replace(agenda=agenda, counts=counts)


def requeued(waiting: WaitingRows, course: Course, queries: QueryRows) -> WaitingRows:
    """Regions with room for all who wait and all who come."""
    services = len(waiting.wake_at)
    coming = np.bincount(queries.service[course.agenda[course.counts[UPCOMING] :]], minlength=services)
    lengths = waiting.ends[:, 1] - waiting.ends[:, 0]
    starts = np.cumsum([0, *(lengths + coming)])
    new = empty_waiting(services, int(starts[-1]), waiting.wake_at)
    for s in range(services):
        old, place = slice(*waiting.ends[s]), slice(starts[s], starts[s] + lengths[s])
        for source, target in zip(waiting[1:5], new[1:5], strict=True):
            target[place] = source[old]
        new.ends[s] = place.start, place.stop
    return new


def empty_waiting(services: int, room: int, wake_at: Floats | None = None) -> WaitingRows:
    return WaitingRows(
        np.zeros((services, 2), np.int64),
        np.zeros(room, np.int64),
        np.zeros(room, np.int64),
        np.zeros(room),
        np.zeros(room),
        np.full(services, math.inf) if wake_at is None else wake_at,
    )


def desk_of(policies: Sequence[Policy], slots: Integers, rooms: Sequence[int]) -> tuple[Scratch, AnswerArrays]:
    """What policies write to, large enough for each service. rooms: most queries that wait at once, by service."""
    workers = np.maximum(np.diff(slots), 1).tolist()
    asked = [policy.scratch(n, room) for policy, n, room in zip(policies, workers, rooms, strict=True)]
    floats, integers, most = max(a for a, _ in asked), max(b for _, b in asked), max(workers)
    return (
        Scratch(np.zeros(floats), np.zeros(integers, np.int64)),
        AnswerArrays(np.zeros((most, 2), np.int64), np.zeros(most, np.int64)),
    )


def without_waiting(world: JointState, service: int, before: float) -> Integers:
    """Drops a service's waiting queries that arrived before this time [s]; returns their ids in order."""
    waiting, course = world.waiting, world.course
    head, tail = waiting.ends[service]
    stays = waiting.arrivals[head:tail] >= before
    gone = waiting.ids[head:tail][~stays]
    left = head + int(stays.sum())
    for rows in waiting[1:5]:
        rows[head:left] = rows[head:tail][stays]
    waiting.ends[service, 1] = left
    world.queries.instance[gone] = DROPPED
    ended = course.counts[ENDED]
    course.ended[ended : ended + len(gone)] = gone
    course.counts[ENDED] += len(gone)
    return gone


def line_lengths(instances: InstanceRows, queries: QueryRows) -> Integers:
    """[slot] Queries in each instance's line."""
    lengths, query = np.zeros(len(instances.id), np.int64), instances.line[:, 0]
    while (query >= 0).any():
        lengths += query >= 0
        query = np.where(query >= 0, queries.next_in_line[query], -1)
    return lengths


def forget_ended(world: JointState, held: int) -> Integers:
    """Takes out the rows of the queries that have ended, of `held`; returns the ids that the others had, in order."""
    queries, instances, waiting, course = world.queries, world.instances, world.waiting, world.course
    stays = np.ones(held, np.bool_)
    stays[course.ended[: course.counts[ENDED]]] = False
    kept = np.flatnonzero(stays)
    numbers = np.append(np.cumsum(stays) - 1, -1)  # the last for -1: none
    for rows, blank in zip(queries, blank_queries(held - len(kept)), strict=True):
        rows[: len(kept)] = rows[kept]
        rows[len(kept) : held] = blank
    queries.next_in_line[: len(kept)] = numbers[queries.next_in_line[: len(kept)]]
    instances.query[:] = numbers[instances.query]
    instances.line[:] = numbers[instances.line]
    for head, tail in waiting.ends:
        waiting.ids[head:tail] = numbers[waiting.ids[head:tail]]
    upcoming = slice(course.counts[UPCOMING], course.counts[PLANNED])
    course.agenda[upcoming] = numbers[course.agenda[upcoming]]
    course.counts[ENDED] = 0
    return kept


def revised(world: JointState, tables: Tables, sizes: Sequence[Integers], held: int) -> JointState:
    """The world with other tables, in which services come first that it has.

    sizes: by service that it has, [size] its index in the new tables, -1: none. held: queries. Raises ValueError for a
    query of a size that is not there any more.
    """
    queries, instances, waiting = world.queries, world.instances, world.waiting
    ended = np.zeros(held, np.bool_)
    ended[world.course.ended[: world.course.counts[ENDED]]] = True
    found = queries.size.copy()
    for service, places in enumerate(sizes):
        mine = np.flatnonzero(queries.service[:held] == service)
        found[mine] = places[queries.size[mine]]
    if (found[:held][~ended] < 0).any():
        raise ValueError("the batch sizes of all queries that have not ended must stay")
    queries.size[:] = found
    instances.kind[:] = tables.kinds[instances.service] + instances.type
    known, services = len(waiting.wake_at), len(tables.slo)
    ends = np.zeros((services, 2), np.int64)
    ends[:known] = waiting.ends
    for head, tail in waiting.ends:
        waiting.sizes[head:tail] = queries.size[waiting.ids[head:tail]]
    wake_at = np.append(waiting.wake_at, np.full(services - known, math.inf))
    wake_at[ends[:, 1] > ends[:, 0]] = world.course.clock[0]
    return world._replace(tables=tables, waiting=waiting._replace(ends=ends, wake_at=wake_at))
