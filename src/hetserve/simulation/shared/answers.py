"""Carries out what a policy answers: queries go to instances of their service, wait in line there, or are dropped."""

from __future__ import annotations

import math

from hetserve.compiled import njit_inner
from hetserve.simulation.loop import NO_SUCH_QUERY, NO_SUCH_WORKER, REPEATED_QUERY, UNSERVABLE
from hetserve.simulation.shared.serving import begin, cell_of, end, log_end
from hetserve.simulation.shared.state import JointState, ServiceQueue
from hetserve.simulation.state import DROPPED, close_gaps


@njit_inner
def enqueue(query: int, world: JointState) -> int:
    """An arrival; returns its service."""
    queries, waiting = world.queries, world.waiting
    service: int = queries.service[query]
    tail = waiting.ends[service, 1]
    waiting.ids[tail] = query
    waiting.sizes[tail] = queries.size[query]
    waiting.arrivals[tail] = queries.arrival[query]
    waiting.deadlines[tail] = queries.deadline[query]
    waiting.ends[service, 1] = tail + 1
    return service


@njit_inner
def complete(now: float, slot: int, world: JointState) -> int:
    """Ends what an instance serves and starts the next in its line; returns its service."""
    queries, instances = world.queries, world.instances
    end(now, slot, world)
    query = instances.line[slot, 0]
    if query >= 0:
        instances.free_at[slot] = now + instances.pending[slot]
        instances.line[slot, 0] = queries.next_in_line[query]
        if instances.line[slot, 0] < 0:
            instances.line[slot, 1] = -1
            instances.pending[slot] = 0.0
        else:
            instances.pending[slot] -= world.tables.mean[cell_of(slot, queries.size[query], world)]
        begin(now, query, slot, world)
    service: int = instances.service[slot]
    return service


@njit_inner
def _hand_over(now: float, query: int, slot: int, world: JointState) -> None:
    """Gives a query to an instance, which serves or queues it."""
    queries, instances = world.queries, world.instances
    predicted = world.tables.mean[cell_of(slot, queries.size[query], world)]
    if not instances.busy[slot]:
        instances.free_at[slot] = now + predicted
        begin(now, query, slot, world)
        return
    instances.free_at[slot] = max(instances.free_at[slot], now) + predicted
    instances.pending[slot] += predicted
    queries.next_in_line[query] = -1
    if instances.line[slot, 0] < 0:
        instances.line[slot, 0] = query
    else:
        queries.next_in_line[instances.line[slot, 1]] = query
    instances.line[slot, 1] = query


@njit_inner
def _fault(position: int, worker: int, service: int, world: JointState) -> int:
    """Fault of the query at this position; 0: none. worker: place among the service's instances, -1: a drop."""
    waiting, slots = world.waiting, world.slots
    if position < waiting.ends[service, 0] or position >= waiting.ends[service, 1]:
        return NO_SUCH_QUERY
    if waiting.ids[position] < 0:
        return REPEATED_QUERY
    if worker < -1 or worker >= slots[service + 1] - slots[service]:
        return NO_SUCH_WORKER
    if worker >= 0:
        cell = cell_of(slots[service] + worker, world.queries.size[waiting.ids[position]], world)
        if world.tables.mean[cell] == math.inf:
            return UNSERVABLE
    return 0


@njit_inner
def apply(now: float, service: int, dispatched: int, dropped: int, world: JointState) -> int:
    """Carries out an answer for a service; 0, or a fault (negative)."""
    waiting, answer = world.waiting, world.answer
    head = waiting.ends[service, 0]
    low, high = waiting.ends[service, 1], head
    for k in range(dispatched + dropped):
        is_drop = k >= dispatched
        position = head + (answer.drops[k - dispatched] if is_drop else answer.pairs[k, 0])
        worker = -1 if is_drop else answer.pairs[k, 1]
        fault = NO_SUCH_WORKER if worker == -1 and not is_drop else _fault(position, worker, service, world)
        if fault < 0:
            return fault
        query = waiting.ids[position]
        waiting.ids[position] = -1
        low, high = min(low, position), max(high, position)
        if is_drop:
            world.queries.instance[query] = DROPPED
            log_end(query, world)
        else:
            _hand_over(now, query, world.slots[service] + worker, world)
    queue = ServiceQueue(waiting.ends[service], waiting.ids, waiting.sizes, waiting.arrivals, waiting.deadlines)
    close_gaps(low, high, queue)
    return 0
