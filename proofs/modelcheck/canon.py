"""The key of a state: equal keys mean equal futures, up to the names of pods that ask for the same.

Per pod: its truth, and of every process its part of the fingerprint, what is on its way about it, and its requests.
Pods that ask for the same are interchangeable, because no decision looks at a pod's name: their parts are sorted.
GPUs are not interchangeable: ties go by their order. Parts that never change are numbered, so that a key is short.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from functools import cache
from typing import Any

from modelcheck.requests import Request
from modelcheck.state_fingerprint import numbered, without_name
from modelcheck.world import World

Parts = tuple[Hashable, tuple[int, ...]]
"""The whole, and a number per pod in their order: pods of equal numbers differ in nothing but their names."""


def parts(world: World) -> Parts:
    """What a step left as it was is not told again: it is the same objects as in the world before."""
    before, now = world.told, []
    for slot in range(len(world.pods)):
        made_of = _made_of(world, slot)
        if not before or before[slot][0] != made_of:
            now.append((made_of, numbered(tuple(_pod(world, slot)))))
        else:
            now.append(before[slot])
    world.told = now
    return _whole(world), tuple(number for _, number in now)


def key(parts: Parts) -> Hashable:
    """Pods that ask for the same are interchangeable."""
    whole, pods = parts
    return whole, tuple(sorted(pods))


def _whole(world: World) -> Hashable:
    return (
        tuple(world.nodes.items()),
        world.absent,
        world.leader,
        world.term,
        world.lapsed,
        world.free,
        world.ended,
        frozenset(world.spent.items()),
        *((frozenset(wire.nodes.items()) if wire.nodes else (), wire.listing is None) for wire in world.wires),
        *(process.code for process in world.processes),
    )


def _made_of(world: World, slot: int) -> list[Any]:
    """All that `_pod` looks at."""
    found: list[Any] = [world.pods[slot], world.born[slot]]
    for process, wire in zip(world.processes, world.wires, strict=True):
        found += (process.codes[slot], wire.pods.get(slot), wire.seen.get(slot), wire.listing)
    found += [request for request in world.requests if request.sent.ticket.slot == slot]
    return found


def _pod(world: World, slot: int) -> Iterator[Hashable]:
    pod = world.pods[slot]
    yield world.scope.shape.pods[slot]
    yield pod and pod[1:]
    yield world.born[slot]
    for process, wire in zip(world.processes, world.wires, strict=True):
        yield process.codes[slot]
        yield _events(wire.pods.get(slot), slot)
        yield _events(wire.seen.get(slot), slot)
        yield tuple(pod[1:] for pod in wire.listing or () if pod.slot == slot)
    yield tuple(sorted(_request(request, slot) for request in world.requests if request.slot == slot))


@cache
def _events(events: Any, slot: int) -> int:
    return numbered(without_name(repr(events), slot))


@cache
def _request(request: Request, slot: int) -> int:
    """A request as the pod that it is about sees it."""
    status = 0 if request.answer is None else request.answer.status
    what = (request.who, request.method, *request.sent[1:], status, request.saw, request.waits)
    return numbered(without_name(repr(what), slot))
