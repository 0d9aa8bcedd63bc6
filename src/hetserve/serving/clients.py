"""Arrivals: queries in the order of their times, and those of clients that wait for an answer before they ask again."""

from __future__ import annotations

import math

from hetserve.compiled import njit_inner
from hetserve.serving.state import PLANNED, RELEASED, UPCOMING, EngineState


@njit_inner
def release_follower(now: float, query: int, state: EngineState) -> None:
    """Sends the query that a client sends after the answer to this one: puts it on the heap."""
    queries, heap, counts = state.queries, state.course.released, state.course.counts
    follower = queries.follower[query]
    queries.arrival[follower] = now + queries.think[follower]
    queries.deadline[follower] += queries.arrival[follower]
    child = counts[RELEASED]
    counts[RELEASED] += 1
    while child > 0:
        parent = (child - 1) // 2
        if not _precedes(follower, heap[parent], state):
            break
        heap[child] = heap[parent]
        child = parent
    heap[child] = follower


@njit_inner
def _precedes(one: int, other: int, state: EngineState) -> bool:
    arrival = state.queries.arrival
    first: bool = arrival[one] < arrival[other] or (arrival[one] == arrival[other] and one < other)
    return first


@njit_inner
def _take_released(state: EngineState) -> int:
    """Takes the first follower from the heap."""
    heap, counts = state.course.released, state.course.counts
    first = heap[0]
    counts[RELEASED] -= 1
    size, last, parent = counts[RELEASED], heap[counts[RELEASED]], 0
    while 2 * parent + 1 < size:
        child = 2 * parent + 1
        if child + 1 < size and _precedes(heap[child + 1], heap[child], state):
            child += 1
        if not _precedes(heap[child], last, state):
            break
        heap[parent] = heap[child]
        parent = child
    heap[parent] = last
    return int(first)


@njit_inner
def next_arrival(state: EngineState) -> float:
    """Time of the next arrival [s], infinite: none is to come."""
    course = state.course
    counts, at = course.counts, math.inf
    if counts[UPCOMING] < counts[PLANNED]:
        at = state.queries.arrival[course.agenda[counts[UPCOMING]]]
    if counts[RELEASED] > 0:
        at = min(at, state.queries.arrival[course.released[0]])
    return at


@njit_inner
def take_arrival(state: EngineState) -> int:
    """The query that arrives next; at equal times the one with the lower id."""
    course, counts = state.course, state.course.counts
    is_planned = counts[UPCOMING] < counts[PLANNED]
    if counts[RELEASED] > 0 and not (
        is_planned and _precedes(course.agenda[counts[UPCOMING]], course.released[0], state)
    ):
        return _take_released(state)
    query: int = course.agenda[counts[UPCOMING]]
    counts[UPCOMING] += 1
    return query
