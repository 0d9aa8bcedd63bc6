"""The compiled event loop: all that happens between queries and instances, in the order of time.

At equal times completions come first, then arrivals, then wake-ups; lower slots and services first. The loop runs all
that comes before a time and can go on from there: whatever it needs is in its arrays. Each policy has its own copy. It
returns at a decision of a service with another policy's kernel, whose copy goes on. Told of one event, which came from
outside, it decides what follows from it, and returns.
`tests/support/testing/plain_serving.py` is its reference.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any, Final, NamedTuple

from hetserve.compiled import Passing, njit_inner, specialise
from hetserve.dispatch.interface import Policy
from hetserve.dispatch.joining import JoiningPolicy
from hetserve.dispatch.joining import kernel as joining
from hetserve.dispatch.kernel import Floats, Integers, KernelArguments, ModelArrays, QueueArrays, WorkerArrays
from hetserve.serving.answers import ENDLESS_WAKING, apply, complete
from hetserve.serving.clients import next_arrival, take_arrival
from hetserve.serving.events import NO_EVENT, Event, note_sent, take_event
from hetserve.serving.joined import apply_joined, desk_of
from hetserve.serving.progress import refresh
from hetserve.serving.state import ENDED, TO_DECIDE, TOUCHED, WAKES, EngineState
from hetserve.serving.waiting import enqueue

FINISHED, TOO_MANY_LATE, OTHER_KERNEL, GO_ON = range(4)


@njit_inner
def _earliest(times: Floats) -> int:
    """Index of the least, -1: all are infinite. numpy's looks for nan, too, which costs a tenth of a run."""
    best, least = -1, math.inf
    for k in range(times.shape[0]):
        if times[k] < least:
            best, least = k, times[k]
    return best


@njit_inner
def _next_event(until: float, state: EngineState) -> int:
    """Lets the next thing happen before `until` [s]; the service that it concerns, -1: nothing is left."""
    instances, waiting, course = state.instances, state.waiting, state.course
    while True:
        slot, waker, arrives_at = _earliest(instances.done_at), _earliest(waiting.wake_at), next_arrival(state)
        done_at = instances.done_at[slot] if slot >= 0 else math.inf
        now = min(done_at, arrives_at, waiting.wake_at[waker])
        if course.counts[TOUCHED] == 0 or now <= course.clock[0]:
            break
        refresh(course.clock[0], state)
    if now >= until or now == math.inf:
        if until < math.inf:
            course.clock[0] = until
        return -1
    course.clock[0] = now
    service = waker
    if done_at <= now:
        service = complete(now, slot, state)
    elif arrives_at <= now:
        service = enqueue(take_arrival(state), state)
    else:
        course.counts[WAKES] += 1
    waiting.wake_at[service] = math.inf
    return service


@njit_inner
def _is_called(service: int, state: EngineState) -> bool:
    """Whether a service's policy may have something to do."""
    first, last, ends = state.slots[service], state.slots[service + 1], state.waiting.ends
    if ends[service, 1] == ends[service, 0]:
        return False
    if state.tables.eager[service] and last > first:
        return True
    for slot in range(first, last):  # noqa: SIM110  (compiled)
        if not state.instances.busy[slot]:
            return True
    return False


@njit_inner
def _after(service: int, event: int, most_ended: int, state: EngineState) -> int:
    """Whether the run ends once a service has decided: its status, or GO_ON."""
    misses = state.misses
    if event != NO_EVENT:
        note_sent(state)
        return FINISHED
    if misses.number[service] > misses.most[service]:
        status = TOO_MANY_LATE
    elif state.course.counts[ENDED] >= most_ended:
        status = FINISHED
    else:
        return GO_ON
    refresh(state.course.clock[0], state)
    return status


@njit_inner
def _pairing_desk(service: int, state: EngineState) -> tuple[WorkerArrays, KernelArguments]:
    """What the policy of a service is asked with."""
    tables, instances = state.tables, state.instances
    first, last = state.slots[service], state.slots[service + 1]
    kind, end_kind = tables.kinds[service], tables.kinds[service + 1]
    workers = WorkerArrays(instances.type[first:last], instances.busy[first:last], instances.free_at[first:last])
    model = ModelArrays(
        tables.mean[kind:end_kind],
        tables.safe[kind:end_kind],
        tables.coefficients[kind:end_kind],
        tables.in_time[kind:end_kind],
        tables.slo[service],
    )
    return workers, KernelArguments(model, tables.parameters[service], state.scratch, state.answer)


@njit_inner
def _is_instant_over(service: int, state: EngineState) -> bool:
    """Whether nothing more arrives now. Else the service is to decide when all has, so that it can join it."""
    now = state.course.clock[0]
    if not state.tables.joining.orders[service] or next_arrival(state) > now:
        return True
    state.waiting.wake_at[service] = now
    return False


@njit_inner
def _always(service: int, state: EngineState) -> bool:  # noqa: ARG001
    return True


def _run(words: Integers, until: float, most_ended: int, kernel: int, event: Event) -> int:
    """Runs all before `until` [s], or until so many queries have ended in all; FINISHED or why not.

    TOO_MANY_LATE: of one service. OTHER_KERNEL: the service TO_DECIDE has another than this. Negative: a fault. event:
    what happens at `until` to the only service (`take_event`); nothing else does, and what it began is noted.
    """
    state: EngineState = _read(words)
    take_event(event, until, state)
    tables, waiting, counts = state.tables, state.waiting, state.course.counts
    service, most_wakes = counts[TO_DECIDE], 10 * state.queries.size.shape[0] + 1000
    counts[TO_DECIDE] = -1
    desk = 0
    workers, asking = _desk_of(desk, state)
    while counts[WAKES] <= most_wakes:
        if service < 0:
            service = _next_event(until, state)
            if service < 0:
                return FINISHED
        if _is_called(service, state) and _is_ripe(service, state):
            if tables.kernels[service] != kernel:
                counts[TO_DECIDE] = service
                return OTHER_KERNEL
            if service != desk:  # slices are slow to make, and a run of one service needs them once
                desk = service
                workers, asking = _desk_of(service, state)
            now = state.course.clock[0]
            while waiting.ends[service, 1] > waiting.ends[service, 0]:
                head, tail = waiting.ends[service, 0], waiting.ends[service, 1]
                queue = QueueArrays(waiting.sizes[head:tail], waiting.arrivals[head:tail], waiting.deadlines[head:tail])
                sent, dropped, asked = _decide(now, queue, workers, asking)
                if sent + dropped == 0:
                    waiting.wake_at[service] = asked if asked > now else math.inf
                    break
                fault: int = _apply(now, service, sent, dropped, state)
                if fault < 0:
                    return fault
        status = _after(service, event[0], most_ended, state)
        if status != GO_ON:
            return status
        service = -1
    return ENDLESS_WAKING


def _pack(words: Integers, state: EngineState) -> None:
    _write(words, state)


def _missing(*arguments: object) -> Any:
    raise NotImplementedError


_decide = _apply = _desk_of = _is_ripe = _read = _write = _missing
"""Bound in each compiled copy."""


class Engine(NamedTuple):
    """A policy's compiled loop, `run`. `pack(words, state)` writes the words, `room` of them, that it reads."""

    run: Callable[[Integers, float, int, int, Event], int]
    pack: Callable[[Integers, EngineState], None]
    room: int


def engine_of(policy: Policy | JoiningPolicy, state: EngineState) -> Engine:
    """The loop compiled for a policy's kernel, for states with arrays like those of this one.

    All joining policies have one loop.
    """
    if isinstance(policy, JoiningPolicy):
        return _compiled("joining", joining.decide, Passing.of(state))
    return _compiled(policy.name, policy.kernel, Passing.of(state))


@cache
def _compiled(name: str, kernel: Callable[..., tuple[int, int, float]], passing: Passing) -> Engine:
    bound = _JOINING if kernel is joining.decide else _PAIRING
    run = specialise(_run, f"run_{name}_{passing.digest}", _decide=kernel, _read=passing.read(), **bound)
    return Engine(run, _packing(passing), passing.room)


_PAIRING: Final = {"_apply": apply, "_desk_of": _pairing_desk, "_is_ripe": _always}
_JOINING: Final = {"_apply": apply_joined, "_desk_of": desk_of, "_is_ripe": _is_instant_over}


@cache
def _packing(passing: Passing) -> Callable[[Integers, EngineState], None]:
    return specialise(_pack, "pack", _write=passing.write())
