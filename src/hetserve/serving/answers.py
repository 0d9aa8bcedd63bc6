"""Carries out what a policy answers: queries go to instances of their service, wait in line there, or are dropped."""

from __future__ import annotations

import math

from hetserve.compiled import njit_inner
from hetserve.serving.joined import complete_joined
from hetserve.serving.progress import begin, count_late, end, log_end
from hetserve.serving.state import DROPPED, EngineState
from hetserve.serving.waiting import close_gaps

REPEATED_QUERY, NO_SUCH_QUERY, NO_SUCH_WORKER, UNSERVABLE, ENDLESS_WAKING = -1, -2, -3, -4, -5
_MESSAGES = {
    REPEATED_QUERY: "answered twice for one query",
    NO_SUCH_QUERY: "answered for a query that is not in the queue",
    NO_SUCH_WORKER: "dispatched to an instance that does not exist",
    UNSERVABLE: "dispatched a batch to a type that cannot serve it",
    ENDLESS_WAKING: "asks to be woken again and again without doing anything",
}


class PolicyContractError(RuntimeError):
    """A policy broke the contract of hetserve.dispatch.interface."""


def contract_error(policy: str, status: int) -> PolicyContractError:
    """Error for the fault (negative) that the loop returned."""
    return PolicyContractError(f"policy {policy} {_MESSAGES[status]}")


@njit_inner
def complete(now: float, slot: int, state: EngineState) -> int:
    """Ends what an instance serves and starts the next in its line; returns its service."""
    queries, instances = state.queries, state.instances
    service: int = instances.service[slot]
    if state.tables.joining.orders[service]:
        complete_joined(now, slot, state)
        return service
    end(now, slot, state)
    query = instances.line[slot, 0]
    if query >= 0:
        instances.free_at[slot] = now + instances.pending[slot]
        instances.line[slot, 0] = queries.next_in_line[query]
        if instances.line[slot, 0] < 0:
            instances.line[slot, 1] = -1
            instances.pending[slot] = 0.0
        else:
            instances.pending[slot] -= state.tables.mean[instances.kind[slot], queries.size[query]]
        begin(now, query, slot, state)
    return service


@njit_inner
def _hand_over(now: float, query: int, slot: int, state: EngineState) -> None:
    """Gives a query to an instance, which serves or queues it."""
    queries, instances = state.queries, state.instances
    predicted = state.tables.mean[instances.kind[slot], queries.size[query]]
    if not instances.busy[slot]:
        instances.free_at[slot] = now + predicted
        begin(now, query, slot, state)
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
def _fault(position: int, worker: int, service: int, state: EngineState) -> int:
    """Fault of the query at this position; 0: none. worker: place among the service's instances, -1: a drop."""
    waiting, slots = state.waiting, state.slots
    if position < waiting.ends[service, 0] or position >= waiting.ends[service, 1]:
        return NO_SUCH_QUERY
    if waiting.ids[position] < 0:
        return REPEATED_QUERY
    if worker < -1 or worker >= slots[service + 1] - slots[service]:
        return NO_SUCH_WORKER
    if worker >= 0:
        kind, size = state.instances.kind[slots[service] + worker], state.queries.size[waiting.ids[position]]
        if state.tables.mean[kind, size] == math.inf:
            return UNSERVABLE
    return 0


@njit_inner
def apply(now: float, service: int, dispatched: int, dropped: int, state: EngineState) -> int:
    """Carries out an answer for a service; 0, or a fault (negative)."""
    waiting, answer = state.waiting, state.answer
    head = waiting.ends[service, 0]
    low, high = waiting.ends[service, 1], head
    for k in range(dispatched + dropped):
        is_drop = k >= dispatched
        position = head + (answer.drops[k - dispatched] if is_drop else answer.pairs[k, 0])
        worker = -1 if is_drop else answer.pairs[k, 1]
        fault = NO_SUCH_WORKER if worker == -1 and not is_drop else _fault(position, worker, service, state)
        if fault < 0:
            return fault
        query = waiting.ids[position]
        waiting.ids[position] = -1
        low, high = min(low, position), max(high, position)
        if is_drop:
            state.queries.instance[query] = DROPPED
            count_late(query, state)
            log_end(now, query, state)
        else:
            _hand_over(now, query, state.slots[service] + worker, state)
    close_gaps(low, high, service, waiting)
    return 0
