"""What comes from outside, one event at a time: in place of arrivals and ends that the loop works out."""

from __future__ import annotations

import math
from typing import Final

from hetserve.compiled import njit_inner
from hetserve.serving.answers import complete
from hetserve.serving.state import ENDED, SENT, TO_DECIDE, TOUCHED, WAITING, WAKES, EngineState
from hetserve.serving.waiting import enqueue, move

Event = tuple[int, int, int, float, float]
"""What happens; the query that is offered, or the slot that has answered; a query's size, deadline and arrival [s]."""
NO_EVENT, OFFERED, ANSWERED, WOKEN = range(4)
NOTHING: Final[Event] = (NO_EVENT, 0, 0, 0.0, 0.0)


@njit_inner
def take_event(event: Event, now: float, state: EngineState) -> None:
    """Books what happens at `now` [s]; the only service is to decide then. What the last event began is forgotten.

    The region of the queue is moved to its beginning when it is full.
    """
    kind, subject, size, deadline, arrival = event
    if kind == NO_EVENT:
        return
    queries, waiting, gpus, counts = state.queries, state.waiting, state.gpus, state.course.counts
    for k in range(counts[TOUCHED]):
        gpus.is_touched[gpus.touched[k]] = False
    counts[TOUCHED] = counts[ENDED] = counts[WAKES] = counts[SENT] = counts[TO_DECIDE] = 0
    state.course.clock[0] = now
    waiting.wake_at[0] = math.inf
    if kind == OFFERED:
        queries.size[subject], queries.instance[subject] = size, WAITING
        queries.arrival[subject], queries.deadline[subject] = arrival, deadline
        head, tail = waiting.ends[0, 0], waiting.ends[0, 1]
        if tail == waiting.ids.shape[0]:
            for source in range(head, tail):
                move(source, source - head, waiting)
            waiting.ends[0, 0], waiting.ends[0, 1] = 0, tail - head
        enqueue(subject, state)
    elif kind == ANSWERED:
        complete(now, subject, state)


@njit_inner
def note_sent(state: EngineState) -> None:
    """Notes in answer.pairs which query each instance, alone on its GPU, has begun to serve."""
    gpus, instances, pairs, counts = state.gpus, state.instances, state.answer.pairs, state.course.counts
    for k in range(counts[TOUCHED]):
        slot = gpus.members[gpus.ends[gpus.touched[k]]]
        if instances.busy[slot]:
            pairs[counts[SENT], 0] = instances.query[slot]
            pairs[counts[SENT], 1] = instances.id[slot]
            counts[SENT] += 1
