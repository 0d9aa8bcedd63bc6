"""The key of a state: equal keys mean equal futures, up to the names of pods that ask for the same.

Per pod: its truth, and of every process its part of the portrait, what is on its way about it, and its requests.
Pods that ask for the same are interchangeable, because no decision looks at a pod's name: their parts are sorted.
GPUs are not interchangeable: ties go by their order. Parts that never change are numbered, so that a key is short.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from functools import cache
from typing import Any, Final

from modelcheck.portrait import without_name
from modelcheck.world import Request, World

Parts = tuple[Hashable, tuple[int, ...]]
"""The whole, and a number per pod in their order: pods of equal numbers differ in nothing but their names."""

_numbers: Final[dict[Hashable, int]] = {}


def parts(world: World) -> Parts:
    return _whole(world), tuple(_number(tuple(_pod(world, slot))) for slot in range(len(world.pods)))


def key(parts: Parts) -> Hashable:
    """Pods that ask for the same are interchangeable."""
    whole, pods = parts
    return whole, tuple(sorted(pods))


def _number(value: Hashable) -> int:
    return _numbers.setdefault(value, len(_numbers))


def _whole(world: World) -> Hashable:
    return (
        tuple(sorted(world.nodes.items())),
        frozenset(world.absent),
        world.leader,
        frozenset(world.spent.items()),
        tuple((frozenset(wire.nodes.items()), wire.listing is None) for wire in world.wires),
        tuple(_number(process.portrait[0]) for process in world.processes),
    )


def _pod(world: World, slot: int) -> Iterator[Hashable]:
    pod = world.pods[slot]
    yield world.scope.shape.pods[slot]
    yield pod and pod[1:]
    yield world.born[slot]
    for process, wire in zip(world.processes, world.wires, strict=True):
        yield _number(process.portrait[1][slot])
        yield _events(wire.pods.get(slot), slot)
        yield _events(wire.seen.get(slot), slot)
        yield tuple(pod[1:] for pod in wire.listing or () if pod.slot == slot)
    yield tuple(sorted(_request(request, slot) for request in world.requests if request.slot == slot))


@cache
def _events(events: Any, slot: int) -> int:
    return _number(without_name(repr(events), slot))


@cache
def _request(request: Request, slot: int) -> int:
    """A request as the pod that it is about sees it."""
    status = 0 if request.answer is None else request.answer.status
    what = (request.who, request.method, *request.sent[1:], status, request.saw, request.waits)
    return _number(without_name(repr(what), slot))
