"""The queues of waiting queries, in order of arrival, or of deadlines if they are joined so."""

from __future__ import annotations

import math

from hetserve.compiled import njit_inner
from hetserve.dispatch.joining.interface import BIN, BY_ARRIVAL, BY_BIN
from hetserve.dispatch.joining.recent import note_arrival
from hetserve.serving.joined import recent_of
from hetserve.serving.state import EngineState, WaitingRows


@njit_inner
def enqueue(query: int, state: EngineState) -> int:
    """An arrival; returns its service."""
    queries, waiting = state.queries, state.waiting
    service: int = queries.service[query]
    order: int = state.tables.joining.orders[service]
    place: int = waiting.ends[service, 1]
    waiting.ends[service, 1] = place + 1
    if order:
        note_arrival(state.course.clock[0], queries.size[query] + 1, recent_of(service, state))
        if order != BY_ARRIVAL:
            place = _room_for(queries.deadline[query], order, service, waiting)
    waiting.ids[place] = query
    waiting.sizes[place] = queries.size[query]
    waiting.arrivals[place] = queries.arrival[query]
    waiting.deadlines[place] = queries.deadline[query]
    return service


@njit_inner
def _room_for(deadline: float, order: int, service: int, waiting: WaitingRows) -> int:
    """The place behind all that are due as early, from which on the others have moved by one to the last."""
    first: int = waiting.ends[service, 0]
    last: int = waiting.ends[service, 1] - 1
    rank = _rank(deadline, order)
    if last == first or _rank(waiting.deadlines[last - 1], order) <= rank:
        return last
    place, high = first, last
    while place < high:
        middle = (place + high) // 2
        if _rank(waiting.deadlines[middle], order) <= rank:
            place = middle + 1
        else:
            high = middle
    for target in range(last, place, -1):
        move(target - 1, target, waiting)
    return place


@njit_inner
def _rank(deadline: float, order: int) -> float:
    """By which a queue is ordered, ties by arrival."""
    return float(math.floor(deadline / BIN)) if order == BY_BIN else deadline


@njit_inner
def move(source: int, target: int, waiting: WaitingRows) -> None:
    waiting.ids[target] = waiting.ids[source]
    waiting.sizes[target] = waiting.sizes[source]
    waiting.arrivals[target] = waiting.arrivals[source]
    waiting.deadlines[target] = waiting.deadlines[source]


@njit_inner
def close_gaps(low: int, high: int, service: int, waiting: WaitingRows) -> None:
    """Removes entries marked -1 within low..high by moving the shorter side."""
    head, tail = waiting.ends[service, 0], waiting.ends[service, 1]
    if high - head < tail - low:
        target = high
        for source in range(high, head - 1, -1):
            if waiting.ids[source] >= 0:
                move(source, target, waiting)
                target -= 1
        waiting.ends[service, 0] = target + 1
    else:
        target = low
        for source in range(low, tail):
            if waiting.ids[source] >= 0:
                move(source, target, waiting)
                target += 1
        waiting.ends[service, 1] = target
