"""What tells two states of a process apart: equal portraits mean that equal inputs have equal effects.

One part per pod, which does not name it, and one about all else. Times count from now, in two scales: what ends a
reservation is short beside what ends a doubt, so deadlines that are a reservation apart are one.
"""

from __future__ import annotations

import asyncio
import copy
import gc
from collections.abc import Hashable, Iterator
from functools import cache
from typing import Any, Final

from hetserve_extender.leader.fencing import Fence

from hetserve.placement import Booking, GpuRequest, PodView, State
from hetserve.placement.placer import VERIFY_AFTER
from hetserve_extender.verbs.wire import BindArgs
from hetserve_shell.kube.client import Answer
from modelcheck.process import HOLD, Memory, Process
from modelcheck.takeover import Takeover

_ITERATORS: Final[tuple[Any, ...]] = (type(iter(())), type(iter([])))

_numbers: Final[dict[Hashable, int]] = {}

Portrait = tuple[str, tuple[str, ...]]
"""All but the pods, and a part per pod in their order."""


def portrait(process: Process) -> Portrait:
    memory = process.memory
    nodes = sorted((node.name, node.uid) for node in memory.placer.ledger.index.nodes)
    whole = repr((memory.ready, nodes, _takeover(process), process.loop.errors))
    return whole, tuple(
        without_name(repr(list(_pod(process, slot))), slot) for slot in range(len(process.scope.shape.pods))
    )


def numbered(value: Hashable) -> int:
    """The number of a value; equal ones have one number, and they live as long as Python does."""
    return _numbers.setdefault(value, len(_numbers))


def without_name(text: str, slot: int) -> str:
    return text.replace(f"pod{slot}", "pod*").replace(f"slot={slot}", "slot=*")


@cache
def _text(value: Hashable) -> str:
    """Text of a value that never changes; there are few of them, and writing them takes long."""
    return repr(value)


def _pod(process: Process, slot: int) -> Iterator[Any]:
    memory = process.memory
    for incarnation in range(1, process.scope.incarnations + 1):
        uid = f"pod{slot}-{incarnation}"
        booking = memory.placer.ledger.booking(uid)
        yield None if booking is None else (*_booking(booking, memory.clock.now), _rank(memory, booking))
        yield _timed(memory, uid, booking)
        yield _text(memory.placer.pods.get(uid))
        yield _coroutine(process, uid), _waits_to_be_read(process, uid, booking)
        yield _text(memory.sink.unbound.get(uid)), _awaited(memory, uid), _left_to_fence(process, uid)
    yield sorted((ticket.owner, ticket.method) for ticket in process.waiting if ticket.slot == slot)
    yield sorted(status for about, status in process.fenced if about == slot)


def _awaited(memory: Memory, uid: str) -> bool:
    """Whether a fence is being put up that the watch has not shown on this pod."""
    fence = getattr(memory.sink.on_seen, "__self__", None)
    return isinstance(fence, Fence) and uid in fence._left


def _booking(booking: Booking, now: float) -> tuple[Any, ...]:
    left = None if booking.deadline is None else _left(booking.deadline - now)
    return _text(booking.request), booking.places, booking.mib, booking.state.value, left, *_settled(booking)


def _left(seconds: float) -> tuple[Any, ...]:
    """How long until a deadline; of a doubt also whether it is of this moment: of two, the older is looked up first."""
    return seconds > 0, round(seconds), seconds >= VERIFY_AFTER - HOLD / 2


def _settled(booking: Booking) -> tuple[Any, ...]:
    return booking.confirmed, booking.other_models, booking.through, booking.unread


def _timed(memory: Memory, uid: str, booking: Booking | None) -> bool:
    """Whether its deadline will end or name a booking; another's entry about its pod does nothing, now or later."""
    return booking is not None and (booking.deadline, uid) in memory.placer.ledger._deadlines


def _rank(memory: Memory, booking: Booking) -> int:
    """Place among bookings that are due together: housekeeping begins to read them in the order of their UIDs."""
    if booking.deadline is None or booking.state is State.RESERVED:
        return 0
    others = memory.placer.ledger.bookings().values()
    return sum(o.deadline is not None and (o.deadline, o.request.uid) < _due(booking) for o in others)


def _due(booking: Booking) -> tuple[float, str]:
    return booking.deadline or 0.0, booking.request.uid


def _takeover(process: Process) -> Any:
    """Whether it serves, where taking over and ending stand, what it knows of terms.

    Terms that are over count too: that they do is what the shipped code has to know, not the check.
    """
    takeover = process.takeover
    if takeover is None:
        return None
    election, serving = takeover.election, takeover.leadership._serving
    standing = [] if takeover.task is None else list(_frames(takeover.task))
    handed_over = takeover.under_way and election.contender.candidate.handed_over
    since = election.ours_since and election.contender.candidate.origin
    terms = election.elector.term(), serving, since, handed_over
    ending = takeover.giving_up, election.gave_up
    return process.serves, terms, standing, takeover.pods.awaited(), ending, _progress(takeover)


def _progress(takeover: Takeover) -> Any:
    """How far a take-over has come that a term may go on with; its fence is told with each pod."""
    so_far = takeover.leadership._progress
    if so_far is None:
        return None
    lists = takeover.pods.lists > so_far.lists, takeover.pods.taken > so_far.lists
    return so_far.term, so_far.fence is not None, so_far.unshown is not None, lists


def _left_to_fence(process: Process, uid: str) -> bool:
    """Whether a take-over that goes on would fence this pod."""
    so_far = None if process.takeover is None else process.takeover.leadership._progress
    return so_far is not None and so_far.fence is not None and uid in so_far.fence._left


def _coroutine(process: Process, uid: str) -> Any:
    entry = process.binder._running.get(uid)
    return None if entry is None else (entry[0], list(_frames(entry[1])))


def _waits_to_be_read(process: Process, uid: str, booking: Booking | None) -> list[tuple[int, bool]]:
    """Where a bind in doubt stands among those that are read after others, and whether it is still that bind."""
    waiting = enumerate(process.binder._overdue)
    return [(place, one is booking) for place, one in waiting if one.request.uid == uid]


def _frames(task: asyncio.Task[Any]) -> Iterator[Any]:
    """Where a coroutine of the process and those it awaits stand, with their plain local values."""
    coroutine: Any = task.get_coro()
    while coroutine is not None and hasattr(coroutine, "cr_frame"):
        frame, code = coroutine.cr_frame, coroutine.cr_code
        if frame is None or "hetserve_extender" not in code.co_filename:
            return  # the check's own request, or asyncio's: told by what the API server knows of it
        yield code.co_name, frame.f_lasti, [(name, _plain(value)) for name, value in sorted(frame.f_locals.items())]
        yield [_plain(value) for value in _still_to_come(coroutine)]
        coroutine = coroutine.cr_await


def _still_to_come(coroutine: Any) -> Iterator[Any]:
    """What the loops of a coroutine have not reached: no local variable names it."""
    for held in gc.get_referents(coroutine):
        if isinstance(held, _ITERATORS):
            yield from copy.copy(held)


def _plain(value: Any) -> Any:
    """A local value without identity or time; of an object that may change, its type."""
    if isinstance(value, Booking):
        return _text(value.request), value.places, value.mib, value.state.value, *_settled(value)
    if isinstance(value, (BindArgs, GpuRequest, PodView)):
        return _text(value)
    if isinstance(value, Answer):
        return value.status
    if isinstance(value, (str, bool, int, type(None), Exception, dict)):
        return repr(value)
    return type(value).__name__
