"""What can happen next, and how each step changes a world. A step is a tuple of its verb and what it is about."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from hetserve.placement import LedgerError
from hetserve_extender.wire import BindArgs
from modelcheck.extender import Extender
from modelcheck.truth import NodeTruth, PodTruth
from modelcheck.world import World

Step = tuple[Any, ...]

SHORT: Final = 1.0
"""Seconds: longer than any number of reservations after one another, shorter than what ends a doubt."""

_WORLD: Final = {"delete", "terminate", "finish", "create", "relabel", "strip", "node gone", "node back"}
_WIRE: Final = {"lose", "refuse", "list", "repeat", "hang up", "filter again", "bind again"}
FAULTS: Final = frozenset(_WORLD | _WIRE | {"restart", "promote"})
"""Steps that count as faults: a cluster in which all goes well only filters, binds, answers and delivers."""

_VERBS: Final = ("filter", "filter again", "bind", "bind again", "hang up")
_USERS: Final = ("create", "delete", "terminate", "finish", "relabel", "strip")
SLOT_AT: Final = dict.fromkeys((*_VERBS, *_USERS), 0) | dict.fromkeys(("watch", "repeat"), 1)
"""Where a step names its pod, after its verb."""


def possible(world: World) -> Iterator[Step]:
    """Every step that can happen in this state."""
    allowed = world.scope.limits
    spent = world.spent
    exhausted = sum(spent.values()) >= world.scope.faults
    for step in _all(world):
        if step[0] not in FAULTS or (not exhausted and spent.get(step[0], 0) < allowed.get(step[0], 0)):
            yield step


def perform(world: World, step: Step) -> None:
    """Take a step and let every coroutine run until it waits again."""
    kind, *about = step
    if kind in FAULTS:
        world.spent[kind] = world.spent.get(kind, 0) + 1
    PERFORM[kind](world, *about)
    world.loop.settle()


def _all(world: World) -> Iterator[Step]:
    yield from _verbs(world)
    yield from _api(world)
    yield from _users(world)
    yield from _hardware(world)
    for who, extender in enumerate(world.extenders):
        yield from _process(world, who, extender)
    yield from _time(world)


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
    """Whether the scheduler would not ask, did it see what is: the pod is gone, on a node, or its bind runs."""
    pod = world.pods[slot]
    gone = pod is None or pod.incarnation != incarnation or pod.node is not None
    return gone or f"pod{slot}-{incarnation}" in world.running[world.leader].binder._running


def _model(world: World, slot: int, incarnation: int) -> str:
    """What the label of a pod was changed to; empty where it was not."""
    pod = world.pods[slot]
    return pod.model if pod is not None and pod.incarnation == incarnation else ""


def _filter(world: World, slot: int, incarnation: int, offered: tuple[str, ...]) -> None:
    _filter_as(world, PodTruth(slot, incarnation, model=_model(world, slot, incarnation)), offered)


def _filter_again(world: World, slot: int, incarnation: int, offered: tuple[str, ...]) -> None:
    """The scheduler is behind: it sends the pod as it was made."""
    _filter_as(world, PodTruth(slot, incarnation), offered)


def _filter_as(world: World, pod: PodTruth, offered: tuple[str, ...]) -> None:
    raw = world.scope.shape.pod(pod)
    try:
        world.extenders[world.leader].placer.filter(raw, offered)
    except (LedgerError, ValueError):
        return


def _bind(world: World, slot: int, incarnation: int, node: str) -> None:
    running = world.running[world.leader]
    pod = PodTruth(slot, incarnation)
    task = world.loop.create_task(running.binder.bind(BindArgs(pod.name, "default", pod.uid, node)))
    running.callers.add(task)
    task.add_done_callback(running.callers.discard)


def _hang_up(world: World, slot: int, incarnation: int, node: str) -> None:
    _bind(world, slot, incarnation, node)
    world.loop.settle()
    for caller in list(world.running[world.leader].callers):
        caller.cancel()


# What becomes of requests


def _api(world: World) -> Iterator[Step]:
    for number, request in enumerate(world.requests):
        if request.answer is None:
            yield ("carry out", number)
            if request.waiting is not None:
                yield ("refuse", number)
        else:
            yield ("answer", number)
        if request.waiting is not None and (request.method == "POST" or request.answer is None):
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
        world.pods[slot] = None  # the watch selects unfinished pods: it told when the pod finished
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
    """A user gives a pod that has no node yet the other model of the scope."""
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
    world.absent.add(name)
    world.change_node(NodeTruth(name, world.nodes[name]), "DELETED")


def _node_back(world: World, name: str) -> None:
    world.absent.discard(name)
    world.nodes[name] += 1
    world.change_node(NodeTruth(name, world.nodes[name]), "ADDED")


# What happens to a process


def _process(world: World, who: int, extender: Extender) -> Iterator[Step]:
    if extender.listing is not None:
        yield ("list arrives", who)
    else:
        for slot in extender.pods:
            yield ("watch", who, slot)
        for slot in extender.seen:
            yield ("repeat", who, slot)
        if who not in world.lists:
            yield ("list", who)
    for name in extender.nodes:
        yield ("watch node", who, name)
    if who != world.leader or len(world.extenders) == 1:
        yield ("restart", who)
    if who != world.leader and extender.ready:
        yield ("promote", who)
    running = world.running[who]
    idle = running.housekeeping is None or running.housekeeping.done()
    if idle and extender.next_deadline(world.clock.now)[0]:
        yield ("tidy", who)


def _restart(world: World, who: int) -> None:
    """The process is killed and a new one lists; what it sent is cut off with its connection, or was carried out."""
    world.requests = [request for request in world.requests if request.who != who]
    world.extenders[who] = Extender.started(world.clock, world.scope.mode)
    world.list_nodes(who)
    world.extenders[who].begin_list(world.unfinished())
    world.lists.pop(who, None)
    world.running[who] = world.started(who)


def _promote(world: World, who: int) -> None:
    """The Lease changes hands: the old leader believes no longer that it leads, the new one takes over."""
    world.leader, world.term = who, world.term + 1
    world.outcomes.clear()
    takeover = world.running[who].takeover
    assert takeover is not None
    takeover.task = world.loop.create_task(takeover.leadership.take_over(world.term))


def _tidy(world: World, who: int) -> None:
    running = world.running[who]
    running.housekeeping = world.loop.create_task(running.binder.verify_overdue())


# Time


def _time(world: World) -> Iterator[Step]:
    """Time passes up to the next deadline; before, everything due is looked after, and clients stop waiting."""
    now, nexts = world.clock.now, []
    for extender in world.extenders:
        due, later = extender.next_deadline(now)
        if due:
            return
        nexts += [] if later is None else [later]
    if not nexts:
        return
    waits = any(request.waiting is not None for request in world.requests)
    then = min(nexts)
    if then - now <= SHORT:
        yield ("time", "until reservations end")
    elif not waits:
        yield ("time", "until doubts are looked up")


def _pass_time(world: World, until: str) -> None:
    """A short time ends no request; a long one ends all of them, and every deadline of its scale has come."""
    nexts = [extender.next_deadline(world.clock.now)[1] for extender in world.extenders]
    then = min(at for at in nexts if at is not None)
    if until == "until reservations end":
        world.clock.now = then
    else:
        world.clock.now = then + SHORT
        world.requests.clear()


PERFORM: Final[dict[str, Callable[..., None]]] = {
    "filter": _filter,
    "bind": _bind,
    "filter again": _filter_again,
    "bind again": _bind,
    "hang up": _hang_up,
    "carry out": lambda world, number: world.carry_out(world.requests[number]),
    "answer": lambda world, number: world.answer(world.requests[number]),
    "lose": lambda world, number: world.lose(world.requests[number]),
    "refuse": lambda world, number: world.refuse(world.requests[number]),
    "create": _create,
    "delete": _delete,
    "terminate": _terminate,
    "finish": _finish,
    "relabel": _relabel,
    "strip": lambda world, slot: _edit(world, slot, stripped=True),
    "node gone": _node_gone,
    "node back": _node_back,
    "list": lambda world, who: world.extenders[who].begin_list(world.unfinished()),
    "list arrives": lambda world, who: world.take_list(who),
    "watch": lambda world, who, slot: world.extenders[who].deliver_pod(world.scope.shape, slot),
    "repeat": lambda world, who, slot: world.extenders[who].repeat_pod(world.scope.shape, slot),
    "watch node": lambda world, who, name: world.extenders[who].deliver_node(world.scope.shape, name),
    "restart": _restart,
    "promote": _promote,
    "tidy": _tidy,
    "time": _pass_time,
}
