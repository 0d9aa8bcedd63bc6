"""Equal fingerprints of two states of a process mean equal effects of equal inputs.

Made of public values; one part per pod, without its name, and one for the rest. Times count from now, in two scales:
deadlines that are a reservation apart are one.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from functools import cache
from typing import Any, Final

from hetserve.placement.ledger.bookings import Booking, State
from hetserve.placement.placer import VERIFY_AFTER
from hetserve_extender.leader.leadership import Leadership
from modelcheck.process import HOLD, Memory, Process

_numbers: Final[dict[Hashable, int]] = {}

Fingerprint = tuple[str, tuple[str, ...]]
"""The rest, and a part per pod."""


def fingerprint(process: Process) -> Fingerprint:
    memory, scope = process.memory, process.scope
    nodes = sorted((node.name, node.uid) for node in memory.placer.ledger.index.nodes)
    whole = repr((memory.ready, nodes, _leadership(memory)))
    timed = set(memory.placer.ledger.deadlines())
    return whole, tuple(
        without_name(repr(list(_pod(memory, timed, slot, scope.incarnations))), slot)
        for slot in range(len(scope.shape.pods))
    )


def numbered(value: Hashable) -> int:
    """Equal values have one number."""
    return _numbers.setdefault(value, len(_numbers))


def without_name(text: str, slot: int) -> str:
    return text.replace(f"pod{slot}", "pod*").replace(f"slot={slot}", "slot=*")


@cache
def _text(value: Hashable) -> str:
    """Text of a constant value, cached."""
    return repr(value)


def _pod(memory: Memory, timed: set[tuple[float, str]], slot: int, incarnations: int) -> Iterator[Any]:
    fence = memory.fence
    for incarnation in range(1, incarnations + 1):
        uid = f"pod{slot}-{incarnation}"
        booking = memory.placer.ledger.booking(uid)
        yield None if booking is None else (*_booking(booking, memory.clock.now), _rank(memory, booking))
        # An outdated entry has no effect.
        yield booking is not None and (booking.deadline, uid) in timed
        yield _text(memory.placer.pods.get(uid)), _text(memory.handler.unbound.get(uid))
        yield _bind(memory, uid), _waits_to_be_read(memory, uid, booking)
        yield None if fence is None else (uid in fence.unshown, uid in fence.in_flight, uid in fence.failed)


def _booking(booking: Booking, now: float) -> tuple[Any, ...]:
    left = None if booking.deadline is None else _left(booking.deadline - now)
    settled = booking.confirmed, booking.other_models, booking.through, booking.unread
    return _text(booking.request), booking.places, booking.mib, booking.state.value, left, *settled


def _left(seconds: float) -> tuple[Any, ...]:
    """Time until a deadline; of a doubt also whether it is due now: the older is looked up first."""
    return seconds > 0, round(seconds), seconds >= VERIFY_AFTER - HOLD / 2


def _rank(memory: Memory, booking: Booking) -> int:
    """Place among bookings that are due together, by UID."""
    if booking.deadline is None or booking.state is State.RESERVED:
        return 0
    others = memory.placer.ledger.bookings().values()
    return sum(o.deadline is not None and (o.deadline, o.request.uid) < _due(booking) for o in others)


def _due(booking: Booking) -> tuple[float, str]:
    return booking.deadline or 0.0, booking.request.uid


def _bind(memory: Memory, uid: str) -> Any:
    bind = memory.binds.running.get(uid)
    return None if bind is None else (bind.args.node, bind.verifies, _text((type(bind.state).__name__, bind.state)))


def _waits_to_be_read(memory: Memory, uid: str, booking: Booking | None) -> list[tuple[int, bool]]:
    """Place of a doubtful bind among those to read, and whether it is still that bind."""
    waiting = enumerate(memory.binds.overdue)
    return [(place, one is booking) for place, one in waiting if one.request.uid == uid]


def _leadership(memory: Memory) -> Any:
    """Whether it serves, its take-over, its terms, past ones included, and the fences it knows."""
    leadership = memory.leadership
    if leadership is None:
        return None
    lease = memory.election.lease
    term = lease.term if lease.leads(memory.election.clock.now) else None
    terms = term, leadership.served, lease.ours and lease.origin, lease.continues(leadership.served)
    stamps = sorted(leadership.stamps)
    return leadership.state.name, terms, memory.list_awaited, stamps, _take_over(leadership, memory)


def _take_over(leadership: Leadership, memory: Memory) -> Any:
    """Progress of a take-over that may resume; pods of the fence are with each pod."""
    known = leadership.take_over
    if known is None:
        return None
    lists = memory.listing.lists > known.listed_after, memory.listing.taken > known.listed_after
    return known.term, known.fence.began is not None, known.fence.state.name, known.unshown_after is not None, lists
