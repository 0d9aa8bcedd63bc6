"""The key of a state: equal keys mean equal futures, up to the names of pods that ask for the same.

Per pod: its truth, and in every process its bookings, views, pending events, requests and where its coroutine
stands. Pods that ask for the same are interchangeable, because no decision looks at a pod's name: their parts
are sorted. GPUs are not interchangeable: ties go by their order. Times count from now, in two scales: what ends a
reservation is short beside what ends a doubt, so deadlines that are a reservation apart are one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Iterator
from functools import cache
from hashlib import blake2b
from typing import Any

from hetserve.placement import Booking, State
from hetserve_extender.wire import BindArgs
from modelcheck.extender import Extender, Running
from modelcheck.world import Request, World

Parts = tuple[str, tuple[str, ...]]


def parts(world: World) -> Parts:
    """What a state consists of: the whole, and a part per pod that does not name it, in the order of the pods."""
    shape = world.scope.shape
    pods = []
    for slot, spec in enumerate(shape.pods):
        text = repr([_text(spec), *_pod(world, slot)])
        pods.append(text.replace(f"pod{slot}", "pod*").replace(f"slot={slot}", "slot=*"))
    whole = [sorted(world.nodes.items()), sorted(world.absent), world.leader, sorted(world.spent.items())]
    whole += [(sorted(x.nodes.items()), x.listing is None, x.ready) for x in world.extenders]
    whole += [_takeover(world, who) for who in range(len(world.extenders))]
    whole += [sorted(ledger_nodes(x)) for x in world.extenders]
    return repr(whole), tuple(pods)


def digest(parts: Parts) -> bytes:
    """The key of a state: pods that ask for the same are interchangeable."""
    whole, pods = parts
    return blake2b("\n".join((whole, *sorted(pods))).encode(), digest_size=16).digest()


@cache
def _text(value: Hashable) -> str:
    """Text of a value that never changes; there are few of them, and writing them takes long."""
    return repr(value)


def ledger_nodes(extender: Extender) -> list[tuple[str, str]]:
    """(name, UID) of the nodes that a process knows."""
    return [(node.name, node.uid) for node in extender.placer.ledger.index.nodes]


def _takeover(world: World, who: int) -> Any:
    """Whether a process serves, and where taking over stands: on which request, which the requests tell, or list."""
    takeover = world.running[who].takeover
    if takeover is None:
        return None
    standing = [] if takeover.task is None else list(_frames(takeover.task))
    lists = [request for request in world.requests if request.slot < 0 and request.who == who]
    fetched = [_request(request) for request in lists]
    return world.serves(who), standing, fetched, who in world.lists


def _taking_over(world: World) -> bool:
    return any(running.takeover is not None and running.takeover.under_way for running in world.running)


def _pod(world: World, slot: int) -> Iterator[Any]:
    now = world.clock.now
    yield _text(world.pods[slot]), world.born[slot]
    uids = [f"pod{slot}-{incarnation}" for incarnation in range(1, world.born[slot] + 1)]
    for extender, running in zip(world.extenders, world.running, strict=True):
        ledger = extender.placer.ledger
        timed = {(at, uid) for at, uid in ledger._deadlines}
        for uid in uids:
            booking = ledger.booking(uid)
            if booking is not None:
                yield _booking(booking, now), (booking.deadline, uid) in timed, _rank(extender, booking)
            yield _text(extender.placer.pods.get(uid))
            yield _coroutine(running, uid)
            yield extender.sink.get(uid)
        yield _housekeeping(running, f"pod{slot}-")
        yield _text(extender.pods.get(slot)), _text(extender.seen.get(slot))
        yield [pod for pod in extender.listing or () if pod.slot == slot]
    yield sorted((who, status) for who, about, status in world.outcomes if about == slot and _taking_over(world))
    yield sorted(_request(request) for request in world.requests if request.slot == slot)


def _booking(booking: Booking, now: float) -> Any:
    left = None if booking.deadline is None else (booking.deadline > now, round(booking.deadline - now))
    return booking.places, booking.state.value, left, booking.confirmed


def _rank(extender: Extender, booking: Booking) -> int:
    """Place among bookings that are due together: housekeeping reads them in the order of their UIDs."""
    if booking.deadline is None or booking.state is State.RESERVED:
        return 0
    others = extender.placer.ledger.bookings().values()
    return sum(o.deadline is not None and (o.deadline, o.request.uid) < _due(booking) for o in others)


def _due(booking: Booking) -> tuple[float, str]:
    return booking.deadline or 0.0, booking.request.uid


def _request(request: Request) -> tuple[Any, ...]:
    status = 0 if request.answer is None else request.answer.status
    saw = _text(request.saw)
    what = (request.who, request.method, request.uid, request.node, request.notes)
    return (*what, request.version, status, saw, request.waiting is None)


def _coroutine(running: Running, uid: str) -> Any:
    entry = running.binder._running.get(uid)
    return None if entry is None else (entry[0], list(_frames(entry[1])))


def _housekeeping(running: Running, prefix: str) -> Any:
    """Where housekeeping stands, told in the part of the pod that it is about."""
    task = running.housekeeping
    if task is None or task.done():
        return None
    frames = list(_frames(task))
    return frames if prefix in repr(frames) else "elsewhere"


def _frames(task: asyncio.Task[Any]) -> Iterator[Any]:
    """Where a coroutine of the process and those it awaits stand, with their plain local values."""
    coroutine: Any = task.get_coro()
    while coroutine is not None and hasattr(coroutine, "cr_frame"):
        frame, code = coroutine.cr_frame, coroutine.cr_code
        if frame is None or "hetserve" not in code.co_filename:
            return  # the check's own request, or asyncio's: told by what the API server knows of it
        yield code.co_name, frame.f_lasti, [(name, _plain(value)) for name, value in sorted(frame.f_locals.items())]
        coroutine = coroutine.cr_await


def _plain(value: Any) -> Any:
    """A local value without identity or time; of an object that may change, its type."""
    if isinstance(value, Booking):
        return value.request.uid, value.places, value.state.value, value.confirmed
    if isinstance(value, BindArgs):
        return value.uid, value.node
    if isinstance(value, (str, bool, int, type(None), Exception)):
        return repr(value)
    return type(value).__name__
