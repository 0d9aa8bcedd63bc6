"""Processor sharing on GPUs: what is being served goes on at the new speed when a neighbour starts or ends.

stretch = max(1 + sum over busy neighbours j of c_ij x sqrt(b_i b_j) / 8, sum over all busy instances of u), where u is
the share of the GPU's compute that an instance uses while it serves. The first term is what neighbours do to each other
even if there is compute for all; the second shares out the compute that there is.

Starts and ends only mark the GPU; `refresh` gives its instances their speeds once, when the instant is over. So the
order of what happens at one instant, and of the services, makes no difference.
"""

from __future__ import annotations

import math

from hetserve.compiled import njit_inner
from hetserve.simulation.shared.services import MEASURED_AT
from hetserve.simulation.shared.state import ENDED, TOUCHED, JointState


@njit_inner
def _touch(gpu: int, world: JointState) -> None:
    gpus, counts = world.gpus, world.course.counts
    if not gpus.is_touched[gpu]:
        gpus.is_touched[gpu] = True
        gpus.touched[counts[TOUCHED]] = gpu
        counts[TOUCHED] += 1


@njit_inner
def cell_of(slot: int, size: int, world: JointState) -> int:
    """Place of an instance's service times at a batch size."""
    tables, instances = world.tables, world.instances
    service = instances.service[slot]
    cell: int = tables.cells[service] + instances.type[slot] * tables.sizes[service] + size
    return cell


@njit_inner
def begin(now: float, query: int, slot: int, world: JointState) -> None:
    """Starts serving a query on an idle instance."""
    tables, queries, instances = world.tables, world.queries, world.instances
    cell, knot = cell_of(slot, queries.size[query], world), queries.knot[query]
    low, high = tables.ratios[cell, knot], tables.ratios[cell, knot + 1]
    work = tables.means[cell] * (low + (high - low) * queries.weight[query])
    queries.start[query] = now
    queries.instance[query] = instances.id[slot]
    queries.work[query] = work
    instances.busy[slot] = True
    instances.query[slot] = query
    instances.batch[slot] = tables.batches[cell]
    instances.remaining[slot] = work
    instances.since[slot] = now
    instances.stretch[slot] = 0.0
    instances.done_at[slot] = math.inf
    _touch(instances.gpu[slot], world)


@njit_inner
def end(now: float, slot: int, world: JointState) -> None:
    """Ends what an instance serves; it is idle then."""
    queries, instances = world.queries, world.instances
    query = instances.query[slot]
    queries.finish[query] = now
    if now > instances.since[slot]:
        queries.peak[query] = max(queries.peak[query], instances.stretch[slot])
    log_end(query, world)
    instances.busy[slot] = False
    instances.query[slot] = -1
    instances.done_at[slot] = math.inf
    _touch(instances.gpu[slot], world)


@njit_inner
def log_end(query: int, world: JointState) -> None:
    """Notes that a query is served or dropped."""
    course = world.course
    course.ended[course.counts[ENDED]] = query
    course.counts[ENDED] += 1


@njit_inner
def refresh(now: float, world: JointState) -> None:
    """Gives the busy instances of touched GPUs their speeds from now on; a speed that stays is left alone."""
    gpus, instances, counts = world.gpus, world.instances, world.course.counts
    for k in range(counts[TOUCHED]):
        gpu = gpus.touched[k]
        gpus.is_touched[gpu] = False
        first, last = gpus.ends[gpu], gpus.ends[gpu + 1]
        for m in range(first, last):
            slot = gpus.members[m]
            if instances.busy[slot]:
                _set_speed(now, slot, stretch_of(slot, first, last, world), world)
    counts[TOUCHED] = 0


@njit_inner
def _set_speed(now: float, slot: int, stretch: float, world: JointState) -> None:
    instances = world.instances
    before = instances.stretch[slot]
    if stretch == before:
        return
    since = instances.since[slot]
    if before > 0.0 and now > since:
        peak, query = world.queries.peak, instances.query[slot]
        peak[query] = max(peak[query], before)
        instances.remaining[slot] = max(instances.remaining[slot] - (now - since) / before, 0.0)
    instances.since[slot] = now
    instances.stretch[slot] = stretch
    instances.done_at[slot] = now + instances.remaining[slot] * stretch


@njit_inner
def stretch_of(slot: int, first: int, last: int, world: JointState) -> float:
    """Stretch of a busy instance; the GPU's instances are gpus.members[first:last]."""
    tables, instances, members = world.tables, world.instances, world.gpus.members
    kind, batch = instances.kind[slot], instances.batch[slot]
    slowed, used = 1.0, 0.0
    for k in range(first, last):
        other = members[k]
        if not instances.busy[other]:
            continue
        used += tables.shares[instances.kind[other]]
        if other != slot:
            scale = math.sqrt(batch * instances.batch[other]) / MEASURED_AT
            slowed += tables.harm[kind, instances.kind[other]] * scale
    return max(slowed, used)
