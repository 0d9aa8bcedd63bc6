"""What can happen next; a step is a tuple of its verb and subject."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from modelcheck import changes
from modelcheck.changes import CHANGES, leader_steps, retire_followers
from modelcheck.passing import pass_time, time_steps
from modelcheck.truth import NodeTruth, PodTruth
from modelcheck.world import World

Step = tuple[Any, ...]

_WORLD: Final = frozenset({"delete", "terminate", "finish", "create", "relabel", "strip", "node gone", "node back"})
_WIRE: Final = {"lose", "refuse", "list", "repeat", "hang up", "filter again", "bind again"}
FAULTS: Final = _WORLD | _WIRE | CHANGES | {"restart", "start"}
"""All but filter, bind, answer and deliver."""

_VERBS: Final = ("filter", "filter again", "bind", "bind again", "hang up")
_USERS: Final = ("create", "delete", "terminate", "finish", "relabel", "strip")
SLOT_AT: Final = dict.fromkeys((*_VERBS, *_USERS), 0) | dict.fromkeys(("watch", "repeat"), 1)
"""Where a step names its pod."""


def possible(world: World) -> Iterator[Step]:
    allowed = world.scope.limits
    spent = world.spent
    exhausted = sum(count for kind, count in spent.items() if kind not in CHANGES) >= world.scope.faults
    for step in _all(world):
        kind = step[0]
        if kind not in FAULTS or (spent.get(kind, 0) < allowed.get(kind, 0) and (kind in CHANGES or not exhausted)):
            yield step


def perform(world: World, step: Step) -> None:
    """Raises what the shipped code raises."""
    kind, *about = step
    if kind in FAULTS:
        world.spent = {**world.spent, kind: world.spent.get(kind, 0) + 1}
    PERFORM[kind](world, *about)
    if world.scope.retires and kind in FAULTS:
        retire_followers(world)


def _all(world: World) -> Iterator[Step]:
    yield from _verbs(world)
    yield from _api(world)
    yield from _users(world)
    yield from _hardware(world)
    for who in range(len(world.processes)):
        if who not in world.retired:
            yield from _process(world, who)
        elif who in world.ended and who != world.leader:
            yield ("start", who)
    yield from time_steps(world)


# What the scheduler does


def _verbs(world: World) -> Iterator[Step]:
    if not world.serves(world.leader):
        return
    nodes = tuple(world.nodes)
    offers = [nodes] if len(nodes) == 1 else [nodes, *((node,) for node in nodes)]
    for slot, born in enumerate(world.born):
        for incarnation in range(1, born + 1):
            again = _seen_otherwise(world, slot, incarnation)
            for offered in offers:
                yield ("filter again" if again else "filter", slot, incarnation, offered)
                if not again and _model(world, slot, incarnation):
                    yield ("filter again", slot, incarnation, offered)
            for node in nodes:
                yield ("bind again" if again else "bind", slot, incarnation, node)
                if not again:
                    yield ("hang up", slot, incarnation, node)


def _seen_otherwise(world: World, slot: int, incarnation: int) -> bool:
    """Whether an up-to-date scheduler would not ask."""
    pod = world.pods[slot]
    gone = pod is None or pod.incarnation != incarnation or pod.node is not None
    return gone or f"pod{slot}-{incarnation}" in world.processes[world.leader].running


def _model(world: World, slot: int, incarnation: int) -> str:
    """Changed label of a pod; empty: unchanged."""
    pod = world.pods[slot]
    return pod.model if pod is not None and pod.incarnation == incarnation else ""


def _filter(world: World, slot: int, incarnation: int, offered: tuple[str, ...]) -> None:
    _filter_as(world, PodTruth(slot, incarnation, model=_model(world, slot, incarnation)), offered)


def _filter_again(world: World, slot: int, incarnation: int, offered: tuple[str, ...]) -> None:
    """A late scheduler sends the pod as it was made."""
    _filter_as(world, PodTruth(slot, incarnation), offered)


def _filter_as(world: World, pod: PodTruth, offered: tuple[str, ...]) -> None:
    world.tell(world.leader, "filter", pod, offered)


def _bind(world: World, slot: int, incarnation: int, node: str) -> None:
    world.tell(world.leader, "bind", PodTruth(slot, incarnation), node)


def _hang_up(world: World, slot: int, incarnation: int, node: str) -> None:
    """`verbs.bind_sender` goes on without its caller."""
    _bind(world, slot, incarnation, node)


# Answers to requests


def _api(world: World) -> Iterator[Step]:
    for number, request in enumerate(world.requests):
        if request.answer is None:
            yield ("carry out", number)
            if request.waits:
                yield ("refuse", number)
        else:
            yield ("answer", number)
        if request.waits and (request.method == "POST" or request.answer is None):
            yield ("lose", number)


# What users do


def _users(world: World) -> Iterator[Step]:
    for slot, pod in enumerate(world.pods):
        if pod is None:
            yield ("create", slot)
            continue
        yield ("delete", slot)
        if not pod.terminating and pod.node is not None:
            yield ("terminate", slot)
        if not pod.finished and pod.node is not None:
            yield ("finish", slot)
        if pod.node is None and not pod.model:
            yield ("relabel", slot)
        if pod.notes and not pod.stripped and not pod.finished:
            yield ("strip", slot)


def _create(world: World, slot: int) -> None:
    world.born[slot] += 1
    pod = PodTruth(slot, world.born[slot])
    world.change_pod(slot, pod, "ADDED", pod)


def _delete(world: World, slot: int) -> None:
    pod = world.pods[slot]
    assert pod is not None
    if pod.finished:
        world.pods[slot] = None  # the watch showed that it finished
    else:
        world.change_pod(slot, None, "DELETED", pod)


def _terminate(world: World, slot: int) -> None:
    pod = world.pods[slot]
    assert pod is not None
    changed = pod._replace(terminating=True, version=pod.version + 1)
    if pod.finished:
        world.pods[slot] = changed
    else:
        world.change_pod(slot, changed, "MODIFIED", changed)


def _finish(world: World, slot: int) -> None:
    pod = world.pods[slot]
    assert pod is not None
    changed = pod._replace(finished=True)
    world.change_pod(slot, changed, "DELETED", changed)


def _relabel(world: World, slot: int) -> None:
    """Gives an unbound pod the other model."""
    was = world.scope.shape.pods[slot].model
    _edit(world, slot, model=next((spec.model for spec in world.scope.shape.pods if spec.model != was), "another"))


def _edit(world: World, slot: int, **changes: Any) -> None:
    pod = world.pods[slot]
    assert pod is not None
    changed = pod._replace(version=pod.version + 1, **changes)
    world.change_pod(slot, changed, "MODIFIED", changed)


def _hardware(world: World) -> Iterator[Step]:
    for name in world.nodes:
        yield ("node back", name) if name in world.absent else ("node gone", name)


def _node_gone(world: World, name: str) -> None:
    world.absent |= {name}
    world.change_node(NodeTruth(name, world.nodes[name]), "DELETED")


def _node_back(world: World, name: str) -> None:
    world.absent -= {name}
    world.nodes = {**world.nodes, name: world.nodes[name] + 1}
    world.change_node(NodeTruth(name, world.nodes[name]), "ADDED")


# What happens to a process


def _process(world: World, who: int) -> Iterator[Step]:
    process, wire = world.processes[who], world.wires[who]
    if wire.listing is not None:
        yield ("list arrives", who)
    else:
        for slot in wire.pods:
            yield ("watch", who, slot)
        for slot in wire.seen:
            yield ("repeat", who, slot)
        if not wire.asked:
            yield ("list", who)
    for name in wire.nodes:
        yield ("watch node", who, name)
    yield from leader_steps(world, who)
    if process.due:
        yield ("tidy", who)


PERFORM: Final[dict[str, Callable[..., None]]] = changes.PERFORM | {
    "filter": _filter,
    "bind": _bind,
    "filter again": _filter_again,
    "bind again": _bind,
    "hang up": _hang_up,
    "carry out": World.carry_out,
    "answer": World.answer,
    "lose": World.lose,
    "refuse": World.refuse,
    "create": _create,
    "delete": _delete,
    "terminate": _terminate,
    "finish": _finish,
    "relabel": _relabel,
    "strip": lambda world, slot: _edit(world, slot, stripped=True),
    "node gone": _node_gone,
    "node back": _node_back,
    "list": World.begin_list,
    "list arrives": World.take_list,
    "watch": World.deliver_pod,
    "repeat": World.repeat_pod,
    "watch node": World.deliver_node,
    "tidy": lambda world, who: world.tell(who, "tidy"),
    "time": pass_time,
}
