"""The compiled event loop of several services: arrivals, completions and wake-ups in order of time.

At equal times completions come first, then arrivals, then wake-ups, as in `hetserve.simulation.loop`. It runs all that
comes before a time and can go on from there: whatever it needs is in its arrays. Each policy has its own copy, with one
kernel for all services. `tests/support/testing/plain_sharing.py` is its reference.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import numpy as np

from hetserve.compiled import njit_inner, specialise
from hetserve.dispatch.kernel import Floats, Kernel, KernelArguments, ModelArrays, QueueArrays, WorkerArrays
from hetserve.simulation.loop import ENDLESS_WAKING, FINISHED
from hetserve.simulation.shared.answers import apply, complete, enqueue
from hetserve.simulation.shared.serving import refresh
from hetserve.simulation.shared.state import ENDED, PLANNED, TOUCHED, UPCOMING, JointState


@njit_inner
def _earliest(times: Floats) -> int:
    """Index of the least, -1: there is none."""
    return int(np.argmin(times)) if times.shape[0] else -1


@njit_inner
def _next_arrival(world: JointState) -> float:
    course = world.course
    upcoming = course.counts[UPCOMING]
    if upcoming == course.counts[PLANNED]:
        return math.inf
    at: float = world.queries.arrival[course.agenda[upcoming]]
    return at


@njit_inner
def _arrive(world: JointState) -> int:
    """Takes the next query from the agenda; returns its service."""
    counts = world.course.counts
    query = world.course.agenda[counts[UPCOMING]]
    counts[UPCOMING] += 1
    return enqueue(query, world)


def _play(world: JointState, until: float, most_ended: int) -> int:
    """Runs all before `until` [s], or until `most_ended` queries have ended; FINISHED or a fault."""
    tables, instances, slots = world.tables, world.instances, world.slots
    waiting, course = world.waiting, world.course
    now, wakes, last_ended = course.clock[0], 0, course.counts[ENDED] + most_ended
    while wakes <= 10 * world.queries.size.shape[0] + 1000:
        slot, waker = _earliest(instances.done_at), _earliest(waiting.wake_at)
        done_at = instances.done_at[slot] if slot >= 0 else math.inf
        wake_at, arrives_at = waiting.wake_at[waker], _next_arrival(world)
        at = min(done_at, arrives_at, wake_at)
        if at > now and course.counts[TOUCHED] > 0:
            refresh(now, world)
            continue
        if at >= until or at == math.inf:
            course.clock[0] = until if until < math.inf else now
            return FINISHED
        now = at
        course.clock[0] = now
        if done_at <= now:
            service = complete(now, slot, world)
        elif arrives_at <= now:
            service = _arrive(world)
        else:
            service = waker
            wakes += 1
        waiting.wake_at[service] = math.inf
        first, last = slots[service], slots[service + 1]
        # Inline: named tuples are slow to pass, and only here a policy's kernel is bound.
        while waiting.ends[service, 1] > waiting.ends[service, 0] and last > first:
            head, tail = waiting.ends[service, 0], waiting.ends[service, 1]
            cell, end_cell, sizes = tables.cells[service], tables.cells[service + 1], tables.sizes[service]
            kind, end_kind = tables.kinds[service], tables.kinds[service + 1]
            queue = QueueArrays(waiting.sizes[head:tail], waiting.arrivals[head:tail], waiting.deadlines[head:tail])
            workers = WorkerArrays(
                instances.type[first:last], instances.busy[first:last], instances.free_at[first:last]
            )
            model = ModelArrays(
                tables.mean[cell:end_cell].reshape(end_kind - kind, sizes),
                tables.safe[cell:end_cell].reshape(end_kind - kind, sizes),
                tables.coefficients[kind:end_kind],
                tables.in_time[kind:end_kind],
                tables.slo[service],
            )
            asking = KernelArguments(model, tables.parameters[service], world.scratch, world.answer)
            sent, dropped, asked = _decide(now, queue, workers, asking)
            if sent + dropped == 0:
                waiting.wake_at[service] = asked if asked > now else math.inf
                break
            fault = apply(now, service, sent, dropped, world)
            if fault < 0:
                return fault
        if course.counts[ENDED] >= last_ended:
            refresh(now, world)
            return FINISHED
    return ENDLESS_WAKING


def _decide(*arguments: object) -> tuple[int, int, float]:
    raise NotImplementedError


@cache
def compiled_joint_loop(policy: str, kernel: Kernel) -> Callable[[JointState, float, int], int]:
    return specialise(_play, f"play_{policy}", _decide=kernel)
