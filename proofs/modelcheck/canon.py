"""The key of a state: equal keys mean equal futures, up to the names of pods with equal requests.

Per pod: its truth, its part of each fingerprint, what is on its way, its requests. Parts of equal pods are sorted, as
no decision reads a pod's name; GPUs are ordered. Constant parts are numbered.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from functools import cache
from typing import Any

from modelcheck.requests import Request
from modelcheck.state_fingerprint import numbered, without_name
from modelcheck.world import World

Parts = tuple[Hashable, tuple[int, ...]]
"""The whole, and a number per pod: equal numbers differ only in names."""


def parts(world: World) -> Parts:
    """Reuses what a step left unchanged: the same objects."""
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
    """Equal pods are interchangeable."""
    whole, pods = parts
    return whole, tuple(sorted(pods))


def _whole(world: World) -> Hashable:
    return (
        tuple(world.nodes.items()),
        world.absent,
        world.leader,
        world.term,
        world.lapsed,
        world.unaware,
        world.ended,
        frozenset(world.spent.items()),
        *((frozenset(wire.nodes.items()) if wire.nodes else (), wire.listing is None) for wire in world.wires),
        *(process.code for process in world.processes),
    )


def _made_of(world: World, slot: int) -> list[Any]:
    """Everything that `_pod` reads."""
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
    """A request as its pod sees it."""
    status = 0 if request.answer is None else request.answer.status
    what = (request.who, request.method, *request.sent[1:], status, request.saw, request.waits)
    return numbered(without_name(repr(what), slot))
