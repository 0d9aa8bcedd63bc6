"""How fast instances serve: processor sharing on GPUs, and the ends of what is served.

What is being served goes on at the new speed when a neighbour starts or ends. On a GPU,

    stretch = max(1 + sum over busy neighbours j of c_ij x scale(b_i, b_j), sum over all busy instances of u),

where u is the share of the GPU's compute that an instance uses while it serves. The first term is what neighbours do to
each other even if there is compute for all; the second shares out the compute that there is.

Starts and ends only mark a shared GPU; `refresh` gives its instances their speeds once, when the instant is over. So
the order of what happens at one instant, and of the services, makes no difference. An instance alone on its GPU needs
none of it: its end is known when it starts.
"""

from __future__ import annotations

import math

from hetserve.compiled import njit_inner
from hetserve.dispatch.kernel import Floats
from hetserve.serving.clients import release_follower
from hetserve.serving.services import MEASURED_AT
from hetserve.serving.state import ENDED, TOUCHED, EngineState


@njit_inner
def _touch(gpu: int, state: EngineState) -> None:
    gpus, counts = state.gpus, state.course.counts
    if not gpus.is_touched[gpu]:
        gpus.is_touched[gpu] = True
        gpus.touched[counts[TOUCHED]] = gpu
        counts[TOUCHED] += 1


@njit_inner
def begin(now: float, query: int, slot: int, state: EngineState) -> None:
    """Starts serving a query on an idle instance."""
    tables, queries, instances = state.tables, state.queries, state.instances
    service, kind, size = instances.service[slot], instances.kind[slot], queries.size[query]
    work = work_of(queries.draw[query], service, kind, size, state)
    queries.start[query] = now
    queries.instance[query] = instances.id[slot]
    queries.work[query] = work
    instances.query[slot], instances.batch[slot] = query, tables.batches[service, size]
    if not set_going(now, work, slot, state):
        instances.is_late[slot] = now + work > queries.deadline[query]
        if instances.is_late[slot]:
            count_late(query, state)


@njit_inner
def work_of(draw: float, service: int, kind: int, size: int, state: EngineState) -> float:
    """Service time alone [s]. draw: uniform."""
    tables = state.tables
    work: float = tables.means[kind, size] * _ratio_of(draw, tables.probabilities[service], tables.ratios[kind, size])
    return work


@njit_inner
def set_going(now: float, work: float, slot: int, state: EngineState) -> bool:
    """An instance begins so much work [s alone] on its query; whether its end is unknown, as its GPU is shared."""
    instances = state.instances
    instances.busy[slot] = True
    instances.remaining[slot] = work
    instances.since[slot] = now
    if instances.shares[slot]:
        instances.stretch[slot] = 0.0
        instances.done_at[slot] = math.inf
        _touch(instances.gpu[slot], state)
        return True
    instances.stretch[slot] = 1.0
    instances.done_at[slot] = now + work
    return False


@njit_inner
def _ratio_of(draw: float, probabilities: Floats, ratios: Floats) -> float:
    """Quantile of a uniform draw: the ratios lie on rising probabilities from 0 to 1, linear in between."""
    knots, low = probabilities.shape[0], -1
    for knot in range(knots - 1):  # no branches, which random draws would mislead
        low += probabilities[knot] <= draw
    weight = (draw - probabilities[low]) / (probabilities[low + 1] - probabilities[low])
    ratio: float = ratios[low] + (ratios[low + 1] - ratios[low]) * weight
    return ratio


@njit_inner
def end(now: float, slot: int, state: EngineState) -> None:
    """Ends what an instance serves; it is idle then."""
    queries, instances = state.queries, state.instances
    query = instances.query[slot]
    queries.finish[query] = now
    if now > instances.since[slot]:
        queries.peak[query] = max(queries.peak[query], instances.stretch[slot])
    if now > queries.deadline[query] and not instances.is_late[slot]:
        count_late(query, state)
    log_end(now, query, state)
    set_idle(slot, state)


@njit_inner
def set_idle(slot: int, state: EngineState) -> None:
    instances = state.instances
    instances.is_late[slot] = False
    instances.busy[slot] = False
    instances.query[slot] = -1
    instances.done_at[slot] = math.inf
    if instances.shares[slot]:
        _touch(instances.gpu[slot], state)


@njit_inner
def count_late(query: int, state: EngineState) -> None:
    """Counts a query that misses its deadline for certain."""
    service = state.queries.service[query]
    if query >= state.misses.first[service]:
        state.misses.number[service] += 1


@njit_inner
def log_end(now: float, query: int, state: EngineState) -> None:
    """Notes that a query is served or dropped; its client may send the next one."""
    course = state.course
    course.ended[course.counts[ENDED]] = query
    course.counts[ENDED] += 1
    if state.queries.follower[query] > 0:
        release_follower(now, query, state)


@njit_inner
def refresh(now: float, state: EngineState) -> None:
    """Gives the busy instances of touched GPUs their speeds from now on; a speed that stays is left alone."""
    gpus, instances, counts = state.gpus, state.instances, state.course.counts
    for k in range(counts[TOUCHED]):
        gpu = gpus.touched[k]
        gpus.is_touched[gpu] = False
        first, last = gpus.ends[gpu], gpus.ends[gpu + 1]
        for m in range(first, last):
            slot = gpus.members[m]
            if instances.busy[slot]:
                _set_speed(now, slot, stretch_of(slot, first, last, state), state)
    counts[TOUCHED] = 0


@njit_inner
def _set_speed(now: float, slot: int, stretch: float, state: EngineState) -> None:
    instances = state.instances
    before = instances.stretch[slot]
    if stretch == before:
        return
    since = instances.since[slot]
    if before > 0.0 and now > since:
        peak, query = state.queries.peak, instances.query[slot]
        peak[query] = max(peak[query], before)
        instances.remaining[slot] = max(instances.remaining[slot] - (now - since) / before, 0.0)
    instances.since[slot] = now
    instances.stretch[slot] = stretch
    instances.done_at[slot] = now + instances.remaining[slot] * stretch


@njit_inner
def batch_scaling(own: float, other: float) -> float:
    """How interference grows with the batches of two neighbours [items]: 1 at 8 and 8."""
    return math.sqrt(own * other) / MEASURED_AT


@njit_inner
def stretch_of(slot: int, first: int, last: int, state: EngineState) -> float:
    """Stretch of a busy instance; the GPU's instances are gpus.members[first:last]."""
    tables, instances, members = state.tables, state.instances, state.gpus.members
    kind, batch = instances.kind[slot], instances.batch[slot]
    slowed, used = 1.0, 0.0
    for k in range(first, last):
        other = members[k]
        if not instances.busy[other]:
            continue
        used += tables.shares[instances.kind[other]]
        if other != slot:
            slowed += tables.harm[kind, instances.kind[other]] * batch_scaling(batch, instances.batch[other])
    return max(slowed, used)
